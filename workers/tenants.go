package workers

// tenants are whose requests are to have an equal share: who uses one API key
// each.
type tenants struct {
	byID    map[uint64]*tenant
	came    uint64  // requests, so far
	reached float64 // how much the one had been served that went last
}

type tenant struct {
	served float64 // tokens
	groups int     // in which it waits
}

// maxTenants bounds how many tenants are remembered that do not wait.
const maxTenants = 4096

// get returns the tenant with that id. One who comes new, or after a while,
// begins where the others are: to have been away earns nothing.
func (s *tenants) get(id uint64) *tenant {
	t := s.byID[id]
	if t == nil {
		s.forget()
		t = &tenant{}
		s.byID[id] = t
	}
	if t.groups == 0 {
		t.served = max(t.served, s.reached)
	}
	return t
}

// serve counts that a request of so many tokens goes, of who has that id.
func (s *tenants) serve(id uint64, tokens float64) {
	t := s.get(id)
	s.reached = max(s.reached, t.served)
	t.served += tokens
}

// pay counts tokens that a tenant has been served since it went.
func (s *tenants) pay(id uint64, tokens float64) {
	if t := s.byID[id]; t != nil {
		t.served += tokens
	}
}

// forget makes room for a tenant, if there are many.
func (s *tenants) forget() {
	if len(s.byID) < maxTenants {
		return
	}
	for id, t := range s.byID {
		if t.groups == 0 && t.served <= s.reached {
			delete(s.byID, id)
		}
	}
	for id, t := range s.byID { // all of them are ahead of the others
		if len(s.byID) < maxTenants {
			return
		}
		if t.groups == 0 {
			delete(s.byID, id)
		}
	}
}

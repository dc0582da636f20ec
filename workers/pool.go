package workers

import "slices"

// A Pool is a set of workers of which one prefill and one decode worker can be
// paired, if Fits says so. Every worker in it fits at least one other.
type Pool struct {
	Dialect         string
	Prefill, Decode []*Load

	apart []uint64 // a bit for each pair that does not fit, by place; nil: all fit
	width int      // decode places
}

// A poolSet is pools in the making: the workers that may be in one pool unless
// they differ in what must agree.
type poolSet struct {
	groups  []string
	members [][]*Worker
}

// add adds w to a group.
func (s *poolSet) add(group string, w *Worker) {
	i := slices.Index(s.groups, group)
	if i < 0 {
		i = len(s.groups)
		s.groups, s.members = append(s.groups, group), append(s.members, nil)
	}
	s.members[i] = append(s.members[i], w)
}

// whole returns the pools that have workers of both roles.
func (s *poolSet) whole() []Pool {
	var pools []Pool
	for _, members := range s.members {
		pools = append(pools, split(members)...)
	}
	return slices.DeleteFunc(pools, func(p Pool) bool { return len(p.Prefill) == 0 || len(p.Decode) == 0 })
}

// add adds w to the workers of its role.
func (p *Pool) add(w *Worker) {
	if w.Role == Prefill {
		p.Prefill = append(p.Prefill, &w.load)
	} else {
		p.Decode = append(p.Decode, &w.load)
	}
}

// Fits reports whether prefill worker i and decode worker j may be paired.
func (p *Pool) Fits(i, j int) bool {
	if p.apart == nil {
		return true
	}
	at := p.Prefill[i].place*p.width + p.Decode[j].place
	return p.apart[at/64]&(1<<(at%64)) == 0
}

// Part makes prefill worker i and decode worker j one that does not fit.
func (p *Pool) Part(i, j int) {
	if p.apart == nil {
		p.beginParting(nil)
	}
	p.part(p.Prefill[i], p.Decode[j])
}

// beginParting notes the places of the workers, which stay as they are when
// others leave the pool. It keeps its bits in memory, if that is enough.
func (p *Pool) beginParting(memory []uint64) []uint64 {
	for _, side := range [...][]*Load{p.Prefill, p.Decode} {
		for i, l := range side {
			l.place, l.parted = i, 0
		}
	}
	p.width = len(p.Decode)
	words := (len(p.Prefill)*p.width + 63) / 64
	begin := len(memory)
	memory = slices.Grow(memory, words)[:begin+words]
	p.apart = memory[begin:]
	clear(p.apart)
	return memory
}

func (p *Pool) part(prefill, decode *Load) {
	at := prefill.place*p.width + decode.place
	word, bit := &p.apart[at/64], uint64(1)<<(at%64)
	if *word&bit == 0 {
		*word |= bit
		prefill.parted++
		decode.parted++
	}
}

// endParting drops the workers that fit no other. None of them was the only
// one for somebody else, so one pass is enough.
func (p *Pool) endParting() {
	prefills, decodes := len(p.Prefill), len(p.Decode)
	p.Prefill = slices.DeleteFunc(p.Prefill, func(l *Load) bool { return l.parted == decodes })
	p.Decode = slices.DeleteFunc(p.Decode, func(l *Load) bool { return l.parted == prefills })
}

package main

import (
	"fmt"
	"math/rand/v2"
	"net/http"
	"time"

	"pdrouter/sim"
)

// perRole is how many engines there are of either role. Engine 0 to perRole-1
// are prefill.
const perRole = 3

// The kinds of events.
const (
	kill   = "kill"   // SIGKILL, and restarted on the same ports at the end
	freeze = "freeze" // SIGSTOP, and SIGCONT at the end
	fail   = "fail"   // told to fail, and to work again at the end
	remove = "remove" // taken out of the discovery file, and put back at the end
	retire = "retire" // taken out, and amid it ended by SIGTERM and started anew
	garble = "garble" // a bad version of the discovery file, and the good one again
)

// An event is something that befalls one engine, or the discovery file.
type event struct {
	at, until time.Duration // since the start
	kind      string
	engine    int
	fault     sim.Fault // of fail
}

func (e event) String() string {
	s := fmt.Sprintf("%7.2fs  %-7s", e.at.Seconds(), e.kind)
	if e.kind != garble {
		s += fmt.Sprintf(" engine %d", e.engine)
	}
	s += fmt.Sprintf(" for %.2fs", (e.until - e.at).Seconds())
	if e.kind == fail {
		f := e.fault
		s += fmt.Sprintf(": %s (leg %q, status %d, tokens %d, delay %v)", f.Kind, f.Leg, f.Status, f.Tokens, f.Delay)
	}
	return s
}

// respite is how long after its trouble an engine does not yet count as well:
// the router must find out first, which may take two seconds when all others of
// the role have gone meanwhile, and an engine that was killed must start.
const respite = 2500 * time.Millisecond

// A scheduler makes events.
type scheduler struct {
	*rand.Rand
	sick [2 * perRole]time.Duration // until when each engine counts as not well
}

// schedule returns the events of a run. At any moment at least one engine of
// either role is well, and has been for respite. No two events befall one
// engine at a time, and none lasts beyond the end.
func schedule(rnd *rand.Rand, length time.Duration) []event {
	s := &scheduler{Rand: rnd}
	var all []event
	fileUntil := time.Duration(0)
	for at := s.between(200, 1000); at < length-respite; at += s.between(200, 2000) {
		if s.IntN(16) == 0 && at > fileUntil {
			fileUntil = at + s.between(200, 1500)
			all = append(all, event{at: at, until: fileUntil, kind: garble})
			continue
		}
		engine, ok := s.victim(at)
		if !ok {
			continue
		}
		e := event{at: at, until: min(at+s.between(200, 4000), length), kind: s.kind(engine), engine: engine}
		if e.kind == fail {
			e.fault = s.fault(engine)
		}
		s.sick[engine] = e.until + respite
		all = append(all, e)
	}
	return all
}

// between returns a time between two numbers of milliseconds.
func (s *scheduler) between(low, high int) time.Duration {
	return time.Duration(low+s.IntN(high-low)) * time.Millisecond
}

// victim returns an engine that is well and is not the last one of its role.
func (s *scheduler) victim(at time.Duration) (engine int, ok bool) {
	var may []int
	for first := 0; first < len(s.sick); first += perRole {
		var well []int
		for i := first; i < first+perRole; i++ {
			if s.sick[i] <= at {
				well = append(well, i)
			}
		}
		if len(well) > 1 {
			may = append(may, well...)
		}
	}
	if len(may) == 0 {
		return 0, false
	}
	return may[s.IntN(len(may))], true
}

// kind returns what befalls an engine. Only those of the discovery file can be
// taken out of it.
func (s *scheduler) kind(engine int) string {
	kinds := []string{kill, kill, freeze, freeze, fail, fail, fail, fail, remove, remove, retire}
	if fromFlag(engine) {
		kinds = kinds[:8]
	}
	return kinds[s.IntN(len(kinds))]
}

// fromFlag reports whether the router has an engine from its flags: the first
// one of either role.
func fromFlag(engine int) bool { return engine%perRole == 0 }

// fault returns a way to fail that lasts until the engine is told otherwise, or
// for the next few requests.
func (s *scheduler) fault(engine int) sim.Fault {
	kinds := []string{
		sim.FaultStatus, sim.FaultStatus, sim.FaultStatus, sim.FaultReset, sim.FaultClose, sim.FaultHang,
		sim.FaultHangAfterHead, sim.FaultGarbage, sim.FaultNotJSON, sim.FaultCutJSON, sim.FaultErrorFrame,
		sim.FaultSlow, sim.FaultDie, sim.FaultCloseMid, sim.FaultEndEarly, sim.FaultStall, sim.FaultSplit, sim.FaultComments,
	}
	if engine < perRole {
		kinds = append(kinds, sim.FaultShortJSON) // a fault of JSON, and only prefill never streams
	}
	f := sim.Fault{
		Kind: kinds[s.IntN(len(kinds))], Count: s.IntN(3) * s.IntN(20), Tokens: s.IntN(14), Comments: s.IntN(4),
		Delay: s.between(1, 30), Status: [...]int{429, 500, 502, 503}[s.IntN(4)],
	}
	if s.IntN(2) == 0 && (f.Status == 429 || f.Status == 503) {
		f.Header = http.Header{"Retry-After": {"1"}}
	}
	if s.IntN(2) == 0 {
		f.Body = `{"error":{"message":"told to fail","type":"x","param":null,"code":"told"}}`
	}
	return f
}

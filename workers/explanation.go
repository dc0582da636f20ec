package workers

import (
	"math"
	"time"
)

const (
	// MostCandidates bounds the workers that an Explanation lists, and mostOfRole
	// those of one role: a choice among very many must cost no more than one
	// among some.
	MostCandidates = 2 * mostOfRole
	mostOfRole     = 8
)

// An Explanation is how one choice came about. The registry empties it before a
// choice, a Chooser fills it in when a Need has one, and the registry adds who
// was left out before the Chooser was asked. A request that goes on waiting has
// none. Its memory is used again.
type Explanation struct {
	Reason       string    // by what the prefill worker was chosen
	DecodeReason string    // likewise the decode worker
	Units        [2]string // what Cost is in, by role; empty: nothing was compared by a number

	Candidates []Candidate // of each role those with the least cost, and the one that was chosen
	Unlisted   int         // how many more workers there were

	listed [2]int // by role
	last   [2]int // by role: the place of the one that goes first if there is a better one
}

// A Candidate is a worker as it was seen by one choice.
type Candidate struct {
	Worker   *Worker
	InFlight int           // requests that it had
	Blocks   int           // of the prompt, believed to be in its cache; below 0: that was not asked
	Wait     time.Duration // behind what was there before
	Work     time.Duration // of the request itself

	// Cost is what was compared, in the unit that the Explanation has for the
	// role; the least was chosen, among nearly equal ones by other reasons. NaN:
	// it was not compared by a number.
	Cost float64

	// LeftOut is why it could not be chosen, in one or two words; empty: it
	// could.
	LeftOut string
}

// Why a worker could not be chosen, unless it is barred, for a [Cause].
const (
	LeftAvoided = "failed before" // in an earlier attempt of the request
	LeftNoRoom  = "no room"       // for this request, or none with whom it could be paired
	LeftWarming = "warming"       // it has just come, and has had its share
)

// Reset empties x. A nil x is none.
func (x *Explanation) Reset() {
	if x != nil {
		*x = Explanation{Candidates: x.Candidates[:0]}
	}
}

// Has reports whether x lists a worker of that role.
func (x *Explanation) Has(role Role) bool { return x.listed[role] > 0 }

// Add lists a worker, if there are not many better ones.
func (x *Explanation) Add(c *Candidate) {
	role := c.Worker.Role
	if x.listed[role] < mostOfRole {
		if x.listed[role] == 0 || c.behind(&x.Candidates[x.last[role]]) {
			x.last[role] = len(x.Candidates)
		}
		x.listed[role]++
		x.Candidates = append(x.Candidates, *c)
		return
	}
	x.Unlisted++
	if x.Candidates[x.last[role]].behind(c) {
		x.replaceLast(c)
	}
}

// Keep lists the worker that is chosen in any case. It may have been added.
func (x *Explanation) Keep(c *Candidate) {
	for i := range x.Candidates {
		if x.Candidates[i].Worker == c.Worker {
			return
		}
	}
	if role := c.Worker.Role; x.listed[role] == mostOfRole {
		x.replaceLast(c) // if it was added, it has been counted as one of the others
		return
	}
	x.Add(c)
}

// replaceLast lists c in place of the last of its role.
func (x *Explanation) replaceLast(c *Candidate) {
	role := c.Worker.Role
	x.Candidates[x.last[role]] = *c
	for i := range x.Candidates {
		if o := &x.Candidates[i]; o.Worker.Role == role && o.behind(&x.Candidates[x.last[role]]) {
			x.last[role] = i
		}
	}
}

// behind reports whether c is of less interest than o.
func (c *Candidate) behind(o *Candidate) bool {
	switch {
	case (c.LeftOut == "") != (o.LeftOut == ""):
		return c.LeftOut != ""
	case math.IsNaN(c.Cost):
		return !math.IsNaN(o.Cost)
	default:
		return c.Cost > o.Cost // false if o has none
	}
}

// explainLocked adds to the explanation of a choice the workers that the Chooser
// was not shown. The candidates are those of the last sift.
func (r *Registry) explainLocked(need *Need) {
	if need.Explain == nil {
		return
	}
	pools := r.pools[need.Model]
	for i := range pools {
		r.explainLeftOutLocked(need, pools[i].Prefill)
		r.explainLeftOutLocked(need, pools[i].Decode)
	}
}

func (r *Registry) explainLeftOutLocked(need *Need, loads []*Load) {
	for _, l := range loads {
		if l.sifted == r.sifts {
			continue
		}
		c := Candidate{Worker: l.Worker, InFlight: l.InFlight, Blocks: -1, Cost: math.NaN(), LeftOut: LeftNoRoom}
		s := sieve{avoid: need.Avoid, heed: avoidAll}
		if bar := l.Worker.barLocked(); bar.Until.After(r.now) {
			c.LeftOut = bar.Cause.String()
		} else if s.avoids(l.Worker) {
			c.LeftOut = LeftAvoided
		}
		need.Explain.Add(&c)
	}
}

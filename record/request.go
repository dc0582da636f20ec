package record

import (
	"sync"
	"time"
)

// A Request is the record of one request. Its methods are called by those who
// run it, in no certain order between its two legs.
type Request struct {
	mu   sync.Mutex // guards the following
	view View

	at int // its place among those that run; the Book's
}

// Is tells which endpoint the request is for.
func (r *Request) Is(endpoint string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.view.Endpoint = endpoint
}

// Asks tells what the request asks for. Its body has been scanned.
func (r *Request) Asks(now time.Time, a Asked) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.view.Asked = a
	r.reach(Admit, now)
}

// Leased tells of a further attempt. Its candidates are copied.
func (r *Request) Leased(a Attempt) {
	r.mu.Lock()
	defer r.mu.Unlock()
	v := &r.view
	for p := Prefill; p <= Relay; p++ {
		v.At[p] = time.Time{}
	}
	n := len(v.Attempts)
	if n == cap(v.Attempts) {
		v.Attempts = append(v.Attempts, Attempt{})
	} else {
		v.Attempts = v.Attempts[:n+1] // whose memory of candidates is used again
	}
	last := &v.Attempts[n]
	memory := append(last.Choice.Candidates[:0], a.Choice.Candidates...)
	*last = a
	last.Choice.Candidates = memory
	r.reach(Prefill, a.Leased)
}

// Room tells in which room the legs of the attempt meet.
func (r *Request) Room(room uint64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if a := r.last(); a != nil {
		a.Room = room
	}
}

// Lacks tells what the request waited for.
func (r *Request) Lacks(what string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.view.Lacked = what
}

// Prefilled tells that prefill has succeeded.
func (r *Request) Prefilled(now time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if a := r.last(); a != nil {
		a.Prefilled = now
	}
	r.reach(HandOff, now)
}

// Sent tells that decode's leg is being sent.
func (r *Request) Sent(now time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if a := r.last(); a != nil {
		a.Sent = now
	}
}

// Token tells that a read of the stream has brought tokens, and returns the time
// since the one before; 0: it is the first.
func (r *Request) Token(now time.Time) (gap time.Duration) {
	r.mu.Lock()
	defer r.mu.Unlock()
	v := &r.view
	if v.Events++; v.Events == 1 {
		if a := r.last(); a != nil {
			a.First = now
		}
		r.reach(Relay, now)
	} else {
		gap = now.Sub(v.LastToken)
		v.Longest = max(v.Longest, gap)
	}
	v.LastToken = now
	return gap
}

// Answers tells that an answer in JSON is being passed on.
func (r *Request) Answers(now time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.reach(Relay, now)
}

// Over tells that the attempt has ended, and with which error, if with one.
func (r *Request) Over(now time.Time, leg, code, reason string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if a := r.last(); a != nil {
		a.Ended, a.Leg, a.Code, a.Reason = now, leg, code, reason
	}
}

// Again tells that another attempt is to follow, and the request waits for its
// pair.
func (r *Request) Again() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.view.Phase = Admit
}

// Phase returns how far the request has come.
func (r *Request) Phase() Phase {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.view.Phase
}

// Counts tells what engines said of the request.
func (r *Request) Counts(c Counted) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.view.Counted = c
}

// View returns a copy of the record as it is.
func (r *Request) View() View {
	var v View
	r.CopyTo(&v)
	return v
}

// CopyTo is View with memory that v has already.
func (r *Request) CopyTo(v *View) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.copyLocked(v)
}

func (r *Request) copyLocked(v *View) {
	attempts := v.Attempts[:cap(v.Attempts)]
	*v = r.view
	v.Attempts = attempts[:0]
	for i := range r.view.Attempts {
		var memory []Candidate
		if i < len(attempts) {
			memory = attempts[i].Choice.Candidates[:0]
		}
		a := r.view.Attempts[i]
		a.Choice.Candidates = append(memory, a.Choice.Candidates...)
		v.Attempts = append(v.Attempts, a)
	}
}

// last returns the attempt that is under way; nil: there is none.
func (r *Request) last() *Attempt {
	if n := len(r.view.Attempts); n > 0 {
		return &r.view.Attempts[n-1]
	}
	return nil
}

func (r *Request) reach(p Phase, now time.Time) {
	r.view.Phase = max(r.view.Phase, p)
	if p == Prefill {
		r.view.Phase = p // of a further attempt
	}
	if r.view.At[p].IsZero() {
		r.view.At[p] = now
	}
}

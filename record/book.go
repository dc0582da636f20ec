package record

import (
	"sync"
	"time"
)

// A Book holds the records of the requests that run and of the last ones that
// have ended.
type Book struct {
	spare sync.Pool // of *Request

	mu      sync.Mutex // guards the following; a record's own lock is taken inside it
	count   uint64
	running []*Request
	ended   []*Request // a ring
	next    int        // of it, where the next one goes
}

// NewBook returns a Book that keeps the last keep requests that have ended.
func NewBook(keep int) *Book {
	b := &Book{ended: make([]*Request, keep)}
	b.spare.New = func() any { return new(Request) }
	return b
}

// Begin opens the record of a request whose head has come.
func (b *Book) Begin(now time.Time, id string) *Request {
	r, _ := b.spare.Get().(*Request)
	b.mu.Lock()
	defer b.mu.Unlock()
	b.count++
	r.begin(b.count, now, id)
	r.at = len(b.running)
	b.running = append(b.running, r)
	return r
}

func (r *Request) begin(number uint64, now time.Time, id string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	attempts := r.view.Attempts[:0]
	r.view = View{Number: number, ID: id, Attempts: attempts, Counted: Counted{-1, -1, -1, -1}}
	r.view.At[Accept] = now
}

// An End is how a request ended.
type End struct {
	At              time.Time
	Status          int
	Code            string // of the error; empty: it was answered in full
	Reason, Message string
	Bytes           int64 // of the answer
	Keep            bool  // among the last ones that have ended

	// Copy gets the record as it is then, in memory that it has already. Nil: no
	// copy is wanted.
	Copy *View
}

// End closes the record of a request, once. It must not be used any more.
func (b *Book) End(r *Request, e *End) {
	r.end(e)
	b.mu.Lock()
	defer b.mu.Unlock()
	last := len(b.running) - 1
	moved := b.running[last]
	b.running[r.at], moved.at = moved, r.at
	b.running[last], b.running = nil, b.running[:last]
	if !e.Keep || len(b.ended) == 0 {
		b.spare.Put(r)
		return
	}
	if old := b.ended[b.next]; old != nil {
		b.spare.Put(old)
	}
	b.ended[b.next] = r
	b.next = (b.next + 1) % len(b.ended)
}

func (r *Request) end(e *End) {
	r.mu.Lock()
	defer r.mu.Unlock()
	v := &r.view
	v.Ended, v.Status, v.Code, v.Reason, v.Message, v.Bytes = e.At, e.Status, e.Code, e.Reason, e.Message, e.Bytes
	if e.Copy != nil {
		r.copyLocked(e.Copy)
	}
}

// Ages returns for how long each request that runs has done so.
func (b *Book) Ages(now time.Time) []time.Duration {
	b.mu.Lock()
	defer b.mu.Unlock()
	ages := make([]time.Duration, len(b.running))
	for i, r := range b.running {
		ages[i] = now.Sub(r.view.At[Accept]) // which only Begin sets
	}
	return ages
}

// Running returns the records of the requests that run, the oldest first.
func (b *Book) Running() []View {
	var views []View
	b.Oldest(func(v *View) bool {
		views = append(views, v.Clone())
		return true
	})
	return views
}

// Ended returns the records of the last requests that have ended, at most that
// many, the latest first.
func (b *Book) Ended(most int) []View {
	var views []View
	b.Latest(func(v *View) bool {
		if len(views) < most {
			views = append(views, v.Clone())
		}
		return len(views) < most
	})
	return views
}

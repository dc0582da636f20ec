package health

import (
	"sync"
	"time"
)

// An outbox publishes one bar, and the events that go with it, outside every
// lock of ours and in the order in which they were decided.
//
// What is to be published is put in under the lock of whoever decides it, and
// sent with flush after that lock is left. Two goroutines that do so at the same
// time cannot overtake each other: one sends for both.
type outbox struct {
	bar     func(until time.Time, reason string)
	observe func(Event)

	mu      sync.Mutex // guards the following
	until   time.Time
	reason  string
	news    bool // until and reason have not been sent
	events  []Event
	sending bool
}

// put notes a bar, to be sent.
func (o *outbox) put(until time.Time, reason string) {
	o.mu.Lock()
	o.until, o.reason, o.news = until, reason, true
	o.mu.Unlock()
}

// tell notes an event, to be sent.
func (o *outbox) tell(e Event) {
	o.mu.Lock()
	o.events = append(o.events, e)
	o.mu.Unlock()
}

// flush sends what was noted, or leaves it to the goroutine that is at it.
func (o *outbox) flush() {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.sending {
		return
	}
	o.sending = true
	for o.news || len(o.events) > 0 {
		news, until, reason, events := o.news, o.until, o.reason, o.events
		o.news, o.events = false, nil
		o.mu.Unlock()
		if news {
			o.bar(until, reason)
		}
		for _, e := range events {
			o.observe(e)
		}
		o.mu.Lock()
	}
	o.sending = false
}

package health

import (
	"sync"
	"sync/atomic"
	"time"
)

// How long a worker is left alone that says it has enough to do.
const (
	firstPause = 100 * time.Millisecond // then doubled, while it goes on saying so
	mostPause  = time.Second            // of its own accord
	mostAsked  = 5 * time.Second        // if it asks for more with Retry-After
)

// A pressure is a worker's backpressure.
type pressure struct {
	out  *outbox
	some atomic.Bool // pause is not 0: most workers never take the lock

	mu    sync.Mutex // guards the following
	pause time.Duration
	until time.Time
}

// busy bars the worker for a while. Those who were refused together count as
// one: as long as a bar is in force it may grow, but the next one does not.
func (p *pressure) busy(now time.Time, asked time.Duration) {
	p.mu.Lock()
	pause := p.pause
	if now.After(p.until) || pause == 0 {
		pause = min(max(2*pause, firstPause), mostPause)
	}
	p.pause = pause
	p.some.Store(true)
	if asked > 0 {
		pause = min(asked, mostAsked)
	}
	until := now.Add(pause)
	longer := until.After(p.until)
	if longer {
		p.until = until
		p.out.put(until, "busy: it answered that it has enough to do")
	}
	p.mu.Unlock()
	if longer {
		p.out.flush()
	}
}

// served starts again with the shortest pause. A bar in force stays: the
// success may be of a request that was let in before.
func (p *pressure) served() {
	if !p.some.Load() {
		return
	}
	p.mu.Lock()
	p.pause = 0
	p.some.Store(false)
	p.mu.Unlock()
}

// forget lifts the bar: the engine is a new one.
func (p *pressure) forget() {
	p.mu.Lock()
	p.pause, p.until = 0, time.Time{}
	p.some.Store(false)
	p.out.put(time.Time{}, "")
	p.mu.Unlock()
	p.out.flush()
}

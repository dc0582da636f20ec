package router

import (
	"sync"
	"time"
)

// flights are the requests in flight.
type flights struct {
	mu    sync.Mutex
	calls map[*call]struct{}
}

// enter adds c until the returned function is called.
func (f *flights) enter(c *call) (leave func()) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.calls == nil {
		f.calls = map[*call]struct{}{}
	}
	f.calls[c] = struct{}{}
	return func() {
		f.mu.Lock()
		defer f.mu.Unlock()
		delete(f.calls, c)
	}
}

// ages returns for how long each request has been in flight.
func (f *flights) ages() []time.Duration {
	now := time.Now()
	f.mu.Lock()
	defer f.mu.Unlock()
	ages := make([]time.Duration, 0, len(f.calls))
	for c := range f.calls {
		ages = append(ages, now.Sub(c.began))
	}
	return ages
}

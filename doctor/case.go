package doctor

import (
	"context"
	"net/http"
	"slices"
	"sync"
	"time"

	"pdrouter/survey"
	"pdrouter/systemd"

	"golang.org/x/sync/errgroup"
)

// A Worker is one as it was configured.
type Worker struct {
	ID, Role, URL, Key string

	// BootstrapHost and BootstrapPort are where decode engines are to find the
	// bootstrap server. Empty and 0: where the engine says.
	BootstrapHost string
	BootstrapPort int
}

// name is how findings call a worker.
func (w *Worker) name() string { return w.ID + " " + w.URL }

// A Listener is a place where the router is to be listened to.
type Listener struct {
	Flag string // that names it
	Host string
	Port int // 0: any free one
}

// A Secret is a file with something in it that is not for everybody.
type Secret struct {
	Path, Holds string

	// Grave is set for what must not be readable by others under any
	// circumstances, such as the key of a certificate.
	Grave bool
}

// Units knows the units of this host: systemd.
type Units interface {
	Units(ctx context.Context, pattern string) ([]systemd.Unit, error)
}

// A Case is what is examined.
type Case struct {
	Workers []Worker
	Dialect string // auto: whatever they speak

	// Transport returns how engines are spoken to over HTTP.
	Transport func() *http.Transport

	// EngineIdle and ClientIdle are how long the router keeps connections without
	// a request: to engines, and those of clients (0: until these close them).
	EngineIdle, ClientIdle time.Duration

	// MostRequests bounds the requests at a time; 0: nothing does.
	MostRequests int

	Listeners []Listener
	Secrets   []Secret

	// PID is the router's that runs; 0: none does, or it is not known.
	PID int

	// Unit is the router's, and Manager who knows it; nil: systemd does not run.
	Unit    string
	Manager Units
	Config  string // the file of --config; empty: none

	// Proc is /proc, or what stands for it.
	Proc string
}

// askTime bounds the questions to one engine.
const askTime = 5 * time.Second

// An examined worker is one with what its engine said; nil if it said nothing.
type examined struct {
	Worker
	engine *survey.Engine
	err    error
}

// Examine returns what it finds, in the order of Checks. It calls step whenever
// one of all is done: from any goroutine, one call at a time.
func Examine(ctx context.Context, c Case, step func(done, all int)) []Finding {
	var (
		g    errgroup.Group
		mu   sync.Mutex
		done int
		all  []Finding
	)
	total := 2*len(c.Workers) + 5
	ended := func(found ...Finding) {
		mu.Lock()
		defer mu.Unlock()
		all = append(all, found...)
		done++
		step(done, total)
	}
	workers := make([]examined, len(c.Workers))
	idle := make([][]Finding, len(c.Workers))
	for i, w := range c.Workers {
		g.Go(func() error {
			e, err := c.ask(ctx, w)
			workers[i] = examined{w, e, err}
			ended()
			return nil
		})
		g.Go(func() error {
			idle[i] = c.keepAlive(ctx, w)
			ended()
			return nil
		})
	}
	_ = g.Wait() // nothing in it returns an error
	ended(c.engines(workers)...)
	ended(c.pairs(workers)...)
	ended(c.handOffs(ctx, workers)...)
	ended(slices.Concat(slices.Concat(idle...), c.clientIdle(), clocks(workers))...)
	ended(slices.Concat(c.listeners(ctx), c.limits(ctx), c.files(), c.service(ctx))...)
	return sorted(all)
}

// ask asks the engine of a worker what it is.
func (c *Case) ask(ctx context.Context, w Worker) (*survey.Engine, error) {
	bounded, cancel := context.WithTimeout(ctx, askTime)
	defer cancel()
	place := survey.NewPlace(w.URL, w.Key, c.Transport())
	defer place.Client.CloseIdleConnections()
	return survey.Ask(bounded, place)
}

package router

import (
	"context"
	"errors"
	"hash/maphash"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"pdrouter/metrics"
	"pdrouter/record"
	"pdrouter/tracing"
	"pdrouter/transfer"
	"pdrouter/workers"

	"go.uber.org/zap"
	"golang.org/x/sync/errgroup"
)

// ErrDrained is the cause with which cmd ends the requests that outlast the
// grace period of a shutdown.
var ErrDrained = errors.New("the daemon is shutting down")

// backgroundCalls bounds the calls to engines that outlive their request: as many
// as clients may leave within a second, all of them with two legs.
const backgroundCalls = 4096

// keptRecords is how many records of requests are kept that have ended: some
// MB.
const keptRecords = 1024

// A Handler serves the client API.
type Handler struct {
	standing atomic.Pointer[standing] // the configuration in force
	registry *workers.Registry
	met      *metrics.Metrics
	log      *zap.Logger
	routes   http.Handler
	started  time.Time

	check      pairCheck
	book       *record.Book
	buffered   atomic.Int64 // request bodies held, in bytes
	memory     buffers      // of requests, of answers, and of streams that are held
	access     *accessLog
	prints     sync.Pool // of *fingerprint
	draining   atomic.Bool
	budget     *budget
	background errgroup.Group
	canaries   *Handler // runs canaries, with metrics that nobody reads
	tracer     *tracing.Tracer
	seed       maphash.Seed // of what stands for API keys

	mu     sync.RWMutex // guards the following
	closed bool         // Wait has been called
}

// New returns a Handler that runs requests on the workers of registry.
func New(cfg Config, registry *workers.Registry, met *metrics.Metrics, log *zap.Logger) *Handler {
	h := newHandler(registry, met, log)
	h.canaries = newHandler(registry, metrics.Discard(), zap.NewNop())
	h.routes = h.newRoutes()
	h.Reload(cfg)
	return h
}

// newHandler returns a Handler that has no routes and no configuration yet.
func newHandler(registry *workers.Registry, met *metrics.Metrics, log *zap.Logger) *Handler {
	h := &Handler{book: record.NewBook(keptRecords), registry: registry, met: met, log: log, budget: newBudget(), started: time.Now()}
	h.seed = maphash.MakeSeed()
	h.check.limit = generateTime
	h.access = newAccessLog(log)
	h.prints.New = func() any { return new(fingerprint) }
	h.background.SetLimit(backgroundCalls)
	return h
}

// canonical spells names as net/http keeps them, so that looking one up for
// each request makes no new string.
func canonical(names []string) []string {
	out := make([]string, len(names))
	for i, name := range names {
		out[i] = http.CanonicalHeaderKey(name)
	}
	return out
}

// TraceWith makes t trace what is handed off. It is called before anything is
// served. Canaries are not traced.
func (h *Handler) TraceWith(t *tracing.Tracer) { h.tracer = t }

// ServeHTTP implements http.Handler.
func (h *Handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	h.standing.Load().entry.ServeHTTP(w, r)
}

// Drain makes /readiness say that no new request should be sent here.
func (h *Handler) Drain() { h.draining.Store(true) }

// Draining reports whether Drain was called.
func (h *Handler) Draining() bool { return h.draining.Load() }

// Wait returns when the calls to engines that outlive their request have ended.
// None begins any more from when it is called.
func (h *Handler) Wait() {
	h.mu.Lock()
	h.closed = true
	h.mu.Unlock()
	_ = h.background.Wait() // none returns an error
	h.access.sampler.flush()
	if h.canaries != nil {
		h.canaries.Wait()
	}
}

// tryBackground runs f in the background if there is room for one more, and
// reports whether there is.
func (h *Handler) tryBackground(f func()) bool {
	h.mu.RLock()
	defer h.mu.RUnlock()
	return !h.closed && h.background.TryGo(func() error {
		f()
		return nil
	})
}

// Ages returns for how long each request has been in flight.
func (h *Handler) Ages() []time.Duration { return h.book.Ages(time.Now()) }

// Records returns the records of the requests that run and of the last ones
// that have ended.
func (h *Handler) Records() *record.Book { return h.book }

// BufferedBytes returns how much of Config.MaxBufferedBytes is in use.
func (h *Handler) BufferedBytes() int64 { return h.buffered.Load() }

// RetryBudget returns how many retries may be made at once.
func (h *Handler) RetryBudget() float64 { return h.budget.left() }

// complete returns the handler of an endpoint that is handed off.
func (h *Handler) complete(endpoint transfer.Endpoint) func(*call) error {
	return func(c *call) error {
		req, err := h.accept(c, endpoint)
		if err != nil {
			return err
		}
		work, err := h.admit(c, req)
		if err == nil {
			err = h.runAttempts(c, req)
		}
		return h.ended(c, work, err)
	}
}

// accept reads a request that is to be handed off.
//
//go:noinline
func (h *Handler) accept(c *call, endpoint transfer.Endpoint) (*transfer.Request, error) {
	c.keep = true
	c.rec.Is(endpointLabel(endpoint))
	c.trace = h.tracer.Begin(traceHeaders(c.r))
	req, err := h.readRequest(c, endpoint)
	if err != nil {
		if _, ok := errors.AsType[*transfer.BadRequest](err); ok {
			h.met.BootstrapFailed()
		}
		return nil, err
	}
	c.model, c.streaming = h.modelOf(req), req.Stream()
	return req, nil
}

// ended counts how a request ended, and tells a client whose stream has begun
// why it ends if it was not well.
func (h *Handler) ended(c *call, work *metrics.Work, err error) error {
	switch {
	case err == nil && c.aborted:
		work.Failed(http.StatusInternalServerError)
		return nil
	case err == nil:
		work.Succeeded(time.Since(c.began))
		return nil
	}
	e := errorFor(err)
	if e.Status != statusClientGone {
		work.Failed(e.Status)
	}
	return h.endBroken(c, e)
}

// admit refuses what no pair could serve, before any worker is touched, and
// returns where the request is counted.
func (h *Handler) admit(c *call, req *transfer.Request) (*metrics.Work, error) {
	if n := req.Dropped(); n > 0 {
		h.met.KeysDropped(n)
	}
	endpoint := endpointLabel(req.Endpoint())
	dialects := h.registry.Dialects(req.Model())
	if len(dialects) == 0 {
		work := h.met.Work("unknown", endpoint, "", req.Stream())
		work.Begun()
		return work, nil // Lease says what is wrong
	}
	c.dialect = dialects[0]
	work := h.met.Work(c.model, endpoint, c.dialect, req.Stream())
	work.Begun()
	for _, name := range dialects {
		d, _ := transfer.Lookup(name)
		if !transfer.Carries(d, req.Endpoint()) {
			return work, notCarried(req.Endpoint().Path(), name)
		}
		if err := d.Check(req); err != nil {
			return work, err
		}
	}
	return work, nil
}

// modelOf returns the model that a request is counted under: the one that it
// names, else the only one that there is (/generate names none).
func (h *Handler) modelOf(req *transfer.Request) string {
	if name := req.Model(); name != "" {
		return name
	}
	if all := h.registry.Models(); len(all) == 1 {
		return all[0]
	}
	return "unknown"
}

// endBroken tells a client whose stream has begun why it ends. Every other
// error is left to answering.
func (h *Handler) endBroken(c *call, e *Error) error {
	if !c.w.begun() || !c.streaming || e.Status == statusClientGone {
		return e
	}
	if c.whole {
		e.told = true // the client has all; what failed since is for the log
	}
	if !e.told {
		if err := c.endStream(e); err != nil {
			return errClientGone
		}
		e.told = true
	}
	return e
}

// drained reports whether the request is being ended by a shutdown.
func drained(ctx context.Context) bool { return errors.Is(context.Cause(ctx), ErrDrained) }

func endpointLabel(e transfer.Endpoint) string {
	switch e {
	case transfer.Completions:
		return "completions"
	case transfer.Generate:
		return "generate"
	case transfer.Chat:
	}
	return "chat"
}

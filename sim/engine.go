package sim

import (
	"context"
	"errors"
	"io"
	"log"
	"net"
	"net/http"
	"strconv"
	"sync"
	"sync/atomic"
	"time"
)

// ErrKilled is what Run returns when a request has killed the engine, as a
// malformed hand-off kills a real vLLM.
var ErrKilled = errors.New("engine was killed by a request")

// An Engine is one simulated engine.
type Engine struct {
	cfg     Config
	started time.Time
	id      string // vLLM's engine id; new for each start

	api, side *listener // side: bootstrap server or side channel of prefill
	peers     *http.Client
	known     sync.Map // prefill engines that this one has spoken to, by address

	sched      *scheduler
	rooms      *rooms // SGLang prefill
	holds      *holds // vLLM prefill
	live       *live
	violations violations
	faults     faults
	counts     counts

	base context.Context // of Run: ends with the engine, its cause says how
	stop context.CancelCauseFunc
	open open
}

// counts are what an engine counts beside its scheduler.
type counts struct {
	serving                      atomic.Int64  // HTTP requests now
	requests                     atomic.Uint64 // HTTP requests
	stopped, reached             atomic.Uint64 // answers ended by the model, by the limit
	aborted, failed              atomic.Uint64
	cached, received, decoded    atomic.Uint64 // tokens
	recomputes, expired, reused  atomic.Uint64
	transfers, failedTransfers   atomic.Uint64
	streamed                     [2]streamCounts // not streamed, streamed
	queue                        histogram       // seconds
	promptLength, answerLength   histogram       // tokens
	transferTime, transferVolume histogram       // seconds, bytes
}

// streamCounts are the counts that SGLang keeps apart by is_streaming.
type streamCounts struct {
	requests, prompt, generated atomic.Uint64
	firstToken, whole           histogram // seconds
}

// New returns an engine that listens, but does not serve until Run.
func New(cfg Config) (*Engine, error) {
	cfg = cfg.withDefaults()
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	e := &Engine{
		cfg:     cfg,
		started: time.Now(),

		violations: violations{tell: cfg.Violated},

		id:    cfg.Role + "-" + randomHex(8),
		peers: &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 4096, IdleConnTimeout: 30 * time.Second}},
		live:  newLive(),
		sched: &scheduler{perToken: cfg.PrefillPerToken, slots: cfg.MaxRunning},
	}
	// SGLang's decode keeps no prefix cache.
	caches := cfg.Dialect != SGLang || cfg.Role != Decode
	e.sched.pool = newPool(cfg.KVTokens/cfg.BlockSize, cfg.BlockSize, caches)
	e.counts.setBounds(cfg.Dialect)
	var err error
	if e.api, err = listen(cfg.Addr); err != nil {
		return nil, err
	}
	if cfg.Role != Prefill {
		return e, nil
	}
	if cfg.BootstrapAddr == "" {
		host, _, _ := net.SplitHostPort(cfg.Addr)
		cfg.BootstrapAddr = net.JoinHostPort(host, "0")
	}
	if e.side, err = listen(cfg.BootstrapAddr); err != nil {
		e.api.Close()
		return nil, err
	}
	e.rooms = newRooms(e)
	e.holds = newHolds(e)
	return e, nil
}

// URL returns the base URL of the API, without a slash at its end.
func (e *Engine) URL() string { return "http://" + e.api.Addr().String() }

// BootstrapPort returns the port of the bootstrap server or side channel: of a
// decode engine the one that it assumes.
func (e *Engine) BootstrapPort() int {
	if e.side != nil {
		return e.side.Addr().(*net.TCPAddr).Port
	}
	if _, port, err := net.SplitHostPort(e.cfg.BootstrapAddr); err == nil {
		if n, err := strconv.Atoi(port); err == nil && n > 0 {
			return n
		}
	}
	return defaultBootstrapPort
}

// defaultBootstrapPort is SGLang's --disaggregation-bootstrap-port.
const defaultBootstrapPort = 8998

// Run serves until ctx ends, and returns when nothing of the engine is left.
func (e *Engine) Run(ctx context.Context) error {
	base, stop := context.WithCancelCause(context.WithoutCancel(ctx))
	e.base, e.stop = base, stop
	servers := []*http.Server{{Handler: e, IdleTimeout: e.cfg.KeepAlive}}
	listeners := []*listener{e.api}
	if e.side != nil {
		servers = append(servers, &http.Server{Handler: e.sideHandler()})
		listeners = append(listeners, e.side)
	}
	var wg sync.WaitGroup
	for i, s := range servers {
		s.ErrorLog = log.New(io.Discard, "", 0) // clients that break off are its daily bread
		s.BaseContext = func(net.Listener) context.Context { return base }
		wg.Go(func() { _ = s.Serve(listeners[i]) })
	}
	select {
	case <-ctx.Done():
		stop(errClosing)
	case <-base.Done():
	}
	for _, s := range servers {
		_ = s.Close()
	}
	wg.Wait()
	e.open.close()
	if e.holds != nil {
		e.holds.close()
	}
	e.peers.CloseIdleConnections()
	if errors.Is(context.Cause(base), ErrKilled) {
		return ErrKilled
	}
	return nil
}

// kill stops the engine as a crash does: at once, with all connections reset.
func (e *Engine) kill() {
	e.api.kill()
	if e.side != nil {
		e.side.kill()
	}
	e.stop(ErrKilled)
}

// sideHandler returns what decode engines speak to.
func (e *Engine) sideHandler() http.Handler {
	var side http.Handler = e.holds
	if e.cfg.Dialect == SGLang {
		side = e.rooms
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !e.open.enter() {
			panic(http.ErrAbortHandler)
		}
		defer e.open.leave()
		side.ServeHTTP(w, r)
	})
}

// Violations returns the kinds of what was done to the engine that must not
// be, in order.
func (e *Engine) Violations() []string { return e.violations.list() }

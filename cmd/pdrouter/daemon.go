package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"net/http"
	"sync/atomic"
	"time"

	"pdrouter/admin"
	"pdrouter/health"
	"pdrouter/metrics"
	"pdrouter/policy"
	"pdrouter/router"
	"pdrouter/systemd"
	"pdrouter/tracing"
	"pdrouter/workers"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"
	"golang.org/x/sync/errgroup"
)

// A daemon is every part of the router, built and listening, not yet running.
type daemon struct {
	cfg       Config
	log       *zap.Logger
	registry  *workers.Registry
	monitor   *health.Monitor
	canaries  *health.Canaries
	watchdog  *watchdog
	tls       wardrobe
	quotas    map[string]*quota
	leaving   leaving
	looked    atomic.Bool // each worker has been looked at
	handler   *router.Handler
	admin     *admin.API
	discovery *discovery
	static    []discovered // the workers that flags and --config name
	judge     *health.Judge
	keeper    *workers.Keeper
	targets   *targets        // nil without --prometheus-sd-file
	tracer    *tracing.Tracer // nil without --enable-trace
	met       *metrics.Metrics
	collected *prometheus.Registry

	current atomic.Pointer[inForce] // the configuration in force; cfg is that of the start
	reload  reloads
	manager managerTalk

	data, scrape, probe              net.Listener // probe is nil without --health-check-port
	moreData, moreScrape, moreProbes []net.Listener
	adminSocket, adminPort           net.Listener // nil: none
	adminHanded                      []adminDoor
	awaited                          bool            // the manager holds data: whoever comes may wait there
	noSocket                         string          // why adminSocket is nil, if one was looked for
	handed                           []systemd.Named // all of them, as a successor gets them

	upgrading upgrading
	before    *predecessor // nil: there is none
}

// newDaemon builds the parts and opens the listeners, so that what is wrong
// with either is said before anything runs. Those that the service manager handed
// over are taken. Whoever gets a daemon must run it.
func newDaemon(ctx context.Context, cfg Config, handed sockets, log *zap.Logger) (*daemon, error) {
	tlsForWorkers, err := cfg.workerTLS()
	if err != nil {
		return nil, asConfigFault(err)
	}
	cfg.Exchange.TLS = tlsForWorkers
	cfg.Choosing.Seed = rand.Uint64() // so that routers beside one another differ in what is random
	cfg.Choosing.Branches = new(policy.Branches)
	prefill, decode := cfg.legPolicies()
	chooser, ok := policy.New(prefill, decode, cfg.Choosing)
	if !ok {
		return nil, asConfigFault(fmt.Errorf("policy: %q or %q is unknown", prefill, decode))
	}
	d := &daemon{cfg: cfg, log: log, collected: prometheus.NewRegistry()}
	d.current.Store(&inForce{Config: cfg})
	if d.registry, err = workers.NewRegistry(cfg.Workers, cfg.Exchange, chooser, d.logWorker); err != nil {
		return nil, asConfigFault(err)
	}
	d.keeper = d.newKeeper()
	d.targets = d.newTargets()
	judge := health.NewJudge(cfg.Health, d.registry, d.heed)
	d.registry.SetJudge(judge)
	d.judge, d.monitor = judge, health.NewMonitor(judge)
	d.static = d.named(cfg.Workers.Specs)
	cfg.Metrics.PrefillPolicy, cfg.Metrics.DecodePolicy = prefill, decode
	d.met = metrics.New(d.collected, cfg.Metrics)
	d.discovery = newDiscovery(cfg, d.registry, d.met, log)
	if err := d.discovery.read(); err != nil {
		return nil, asConfigFault(err)
	}
	d.handler = router.New(cfg.Router, d.registry, d.met, log) //nolint:contextcheck // requests get their contexts from net/http
	if err := d.trace(); err != nil {
		return nil, asConfigFault(err)
	}
	d.reload.level, d.reload.met = zap.NewAtomicLevel(), metrics.NewReloads(d.collected, time.Now())
	d.admin = admin.New(d.registry, admin.Seen{
		Book: d.handler.Records(), Breakers: judge.Breakers, Draining: d.handler.Draining, Started: time.Now(), Version: build().Version,
	}, log)
	d.admin.SetUpgrader(d)
	d.admin.SetReloader(d)
	d.canaries = health.NewCanaries(judge, d.handler.Canary)
	if err := d.secure(cfg); err != nil {
		return nil, asConfigFault(err)
	}
	d.watch(judge)
	return d, d.listen(ctx, handed)
}

// run serves until ctx ends, a part fails or another process has taken over, and
// returns when every part has stopped. Requests in flight get the grace period;
// metrics and probes are served until the last of them has ended.
func (d *daemon) run(ctx context.Context) error {
	defer d.registry.Close()
	side, stopSide := context.WithCancel(context.WithoutCancel(ctx))
	defer stopSide()
	d.remember() // before anybody is asked who it is
	g, ctx := errgroup.WithContext(ctx)
	looking, stopLooking := context.WithCancel(ctx) // goes on for the requests of who was taken over from
	defer stopLooking()
	serving := d.mayLeave(ctx)
	g.Go(func() error { return d.registry.Run(looking) })
	g.Go(func() error { return d.monitor.Run(looking) })
	g.Go(func() error { return d.canaries.Run(serving) })
	g.Go(func() error { return d.discovery.run(looking) })
	g.Go(func() error { return d.heedHangups(serving) })
	g.Go(func() error { return d.watchCertificates(serving) })
	if d.keeper != nil {
		g.Go(func() error { return d.keeper.Run(side) }) // the last time when all requests have ended
	}
	if d.targets != nil {
		g.Go(func() error { return d.targets.run(ctx) })
	}
	if d.tracer != nil {
		g.Go(func() error { return d.tracer.Run(side, d.cfg.ShutdownGrace) }) // flushed likewise
	}
	g.Go(func() error {
		defer stopSide()
		defer stopLooking()
		if err := d.takeOver(serving); err != nil {
			d.retire()
			return err
		}
		d.serveAside(serving, side, g)
		return d.serveClients(serving)
	})
	return g.Wait()
}

// serveAside serves all but clients, in g, until side ends.
func (d *daemon) serveAside(serving, side context.Context, g *errgroup.Group) {
	page := d.met.Handler(d.collected, zap.NewStdLog(d.log.Named("metrics")))
	for _, ln := range append([]net.Listener{d.scrape}, d.moreScrape...) {
		g.Go(func() error { return d.serveSide(side, serving, socketMetrics, ln, page) })
	}
	if d.probe != nil {
		for _, ln := range append([]net.Listener{d.probe}, d.moreProbes...) {
			g.Go(func() error { return d.serveSide(side, serving, socketHealth, ln, d.handler.Probes()) })
		}
	}
	for _, door := range d.adminDoors() {
		g.Go(func() error { return d.serveAdmin(side, serving, door) })
	}
	g.Go(func() error { return d.before.follow(side) })
	g.Go(func() error { return d.tellManager(serving, side.Done()) })
	g.Go(func() error { return d.watchAlive(serving, side.Done()) })
	d.logSurfaces()
	d.log.Info("serving", zap.Stringer("addr", d.data.Addr()), zap.Stringer("metrics", d.scrape.Addr()), zap.String("version", build().Version))
	d.before.isServed()
}

// serveClients serves the data listeners until ctx ends, and then drains.
func (d *daemon) serveClients(ctx context.Context) error {
	requests, cut := context.WithCancelCause(context.WithoutCancel(ctx))
	defer cut(router.ErrDrained)
	srv := d.server(d.watchdog.guard(d.leaving.last(d.afterFirstLook(d.clientHandler()))))
	srv.BaseContext = func(net.Listener) context.Context { return requests }
	srv.ConnState = func(conn net.Conn, state http.ConnState) {
		d.quotas[socketData].note(conn, state)
		d.leaving.note(conn, state)
	}
	srv.HTTP2 = d.http2()
	srv.RegisterOnShutdown(d.leaving.abandon)
	drained := make(chan struct{})
	stop := context.AfterFunc(ctx, func() {
		defer close(drained)
		d.drain(ctx, srv, cut)
	})
	err := d.serve(srv)
	if stop() || !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("serve clients: %w", err) // the listener failed, and nobody asked us to stop
	}
	<-drained
	d.handler.Wait()
	return nil
}

// serve serves the data listeners.
func (d *daemon) serve(srv *http.Server) error {
	srv.TLSConfig = d.tls.of(socketData)
	var all errgroup.Group
	for _, ln := range append([]net.Listener{d.data}, d.moreData...) {
		all.Go(func() error {
			err := serveOne(srv, d.leaving.at(d.quotas[socketData].on(ln)))
			if !errors.Is(err, http.ErrServerClosed) {
				_ = srv.Close() // one is no use without the others
			}
			return err
		})
	}
	return all.Wait()
}

// serveOne serves ln, with TLS if srv has a configuration of it, but not at a unix
// socket: who may use that is a matter of its mode.
func serveOne(srv *http.Server, ln net.Listener) error {
	if srv.TLSConfig == nil || ln.Addr().Network() == unixNetwork {
		return srv.Serve(ln)
	}
	return srv.ServeTLS(ln, "", "")
}

// serveSide serves a listener that has no long requests, until ctx ends.
func (d *daemon) serveSide(ctx, serving context.Context, name string, ln net.Listener, h http.Handler) error {
	srv := d.server(h)
	srv.TLSConfig, srv.ConnState = d.tls.of(name), d.quotas[name].note
	srv.ReadTimeout, srv.WriteTimeout = sideTime, sideTime
	if err := d.serveUntil(ctx, serving, srv, d.quotas[name].on(ln)); !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("serve %s: %w", ln.Addr(), err)
	}
	return nil
}

// sideTime bounds a request and its answer there.
const sideTime = 30 * time.Second

// maxRequestHead bounds the head of a client's request; net/http answers 431.
const maxRequestHead = 64 << 10

func (d *daemon) server(h http.Handler) *http.Server {
	complaints, err := zap.NewStdLogAt(d.log.Named("http"), zap.DebugLevel)
	if err != nil {
		complaints = nil // only an unknown level does this
	}
	return &http.Server{
		Handler:           h,
		ReadHeaderTimeout: d.cfg.HeaderRead,
		IdleTimeout:       d.cfg.IdleConnection,
		MaxHeaderBytes:    maxRequestHead,
		ErrorLog:          complaints,
	}
}

// logWorker logs what happened to a worker, and has it told to Prometheus.
func (d *daemon) logWorker(e workers.Event) {
	d.targets.heed()
	log := d.log.With(zap.String("worker", e.Worker.ID), zap.String("url", e.Worker.URL))
	change := []zap.Field{zap.Stringer("from", e.From), zap.Stringer("to", e.To)}
	switch e.Kind {
	case workers.Added:
		log.Info("worker added")
	case workers.Removed:
		log.Info("worker removed: its requests go on", change...)
	case workers.Gone:
		d.forget(e.Worker.URL)
		log.Info("worker gone: its last request has ended")
	case workers.Learned:
		log.Warn("worker is another engine than before", zap.String("reason", e.Reason))
	case workers.Misfit:
		log.Warn("workers do not fit one another", zap.String("reason", e.Reason))
	case workers.Unread:
		log.Warn("worker's load cannot be read", zap.String("reason", e.Reason))
	case workers.Read:
		log.Info("worker's load can be read again")
	case workers.Recalled:
		log.Info("worker's cache is known from before the restart", zap.String("reason", e.Reason))
	case workers.Unrecalled:
		log.Info("worker's cache is not what it was before the restart", zap.String("reason", e.Reason))
	case workers.KVEventsFollowed, workers.KVEventsLost, workers.KVEventsUnread:
		logKVEvents(log, e)
	case workers.Changed:
		d.foresee()
		logState(log, e, change)
	}
}

// logState logs a worker's change of state, or of the reason for it.
func logState(log *zap.Logger, e workers.Event, change []zap.Field) {
	if e.To == workers.Draining && e.From == workers.Draining {
		return // what it would be if it did not drain
	}
	switch e.To {
	case workers.Ready:
		log.Info("worker ready", change...)
	case workers.Draining:
		log.Info("worker draining: its requests go on", change...)
	case workers.Unready:
		log.Warn("worker not ready", append(change, zap.String("reason", e.Reason))...)
	}
}

// heed logs what is thought of a worker or a pair, and has an engine that has
// started anew looked at: it may be another one.
func (d *daemon) heed(e health.Event) {
	log := d.log.With(zap.String("worker", e.Worker.ID), zap.String("url", e.Worker.URL))
	if e.Decode != nil {
		log = log.With(zap.String("decode", e.Decode.ID), zap.String("decode_url", e.Decode.URL))
	}
	if e.Topic == health.Restart {
		log.Warn("worker has started anew", zap.String("reason", e.Reason))
		d.registry.Recheck(e.Worker)
		return
	}
	subject := "worker"
	if e.Decode != nil {
		subject = "pair"
	}
	say := log.Warn
	switch e.To {
	case "closed", "half-open", "answering", "moving", "working":
		say = log.Info
	}
	say(subject+" "+string(e.Topic)+" "+e.To, zap.String("from", e.From), zap.String("reason", e.Reason))
}

package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strconv"
	"strings"
	"time"

	"pdrouter/bench"
	"pdrouter/sim"
	"pdrouter/workers"

	"go.uber.org/zap"
	"golang.org/x/sync/errgroup"
)

// demoPorts are the ports that a fleet is to have; 0 is any free one.
type demoPorts struct {
	router, metrics            int
	prefill, bootstrap, decode [2]int
}

// usualPorts are those which the examples of the documentation have.
func usualPorts() demoPorts {
	return demoPorts{
		router: 30001, metrics: 29001,
		prefill: [2]int{21000, 21001}, bootstrap: [2]int{21200, 21201}, decode: [2]int{21100, 21101},
	}
}

const demoHost = "127.0.0.1"

// A demoEngine is an engine under the name that the router has for it.
type demoEngine struct {
	*sim.Engine
	id, role string
}

// A demoFleet is two prefill and two decode engines with a router in front of
// them, all in this process.
type demoFleet struct {
	engines []demoEngine // prefill-0, prefill-1, decode-0, decode-1
	access  *accessLog
	client  *bench.Client
	base    string   // URL of the router
	metrics string   // URL of its metrics
	taken   []string // what there is to say of ports that others have

	alive                   context.Context // ends when a part fails
	parts, router           *errgroup.Group
	stopEngines, stopRouter context.CancelFunc
}

// startDemoFleet starts the fleet and returns when the router has all its
// workers. It runs until close, not until ctx ends: it is stopped in order.
func startDemoFleet(ctx context.Context, plan demoPlan) (*demoFleet, error) {
	f := &demoFleet{access: newAccessLog(), router: new(errgroup.Group)}
	detached, stop := context.WithCancel(context.WithoutCancel(ctx))
	f.stopEngines, f.stopRouter = stop, stop
	parts, alive := errgroup.WithContext(detached)
	f.parts, f.alive = parts, alive
	err := f.start(alive, plan)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("start the demo: %w", err), f.close())
	}
	return f, nil
}

// start starts the engines, then the router. Ctx is what they all run in.
func (f *demoFleet) start(ctx context.Context, plan demoPlan) error {
	cfg := DefaultConfig()
	cfg.Host, cfg.MetricsHost = demoHost, demoHost
	cfg.AdminSocket = noSocket
	cfg.ShutdownGrace = 2 * time.Second // nobody's answers are lost with it
	for i := range 4 {
		role, n := workers.Role(i/2), i%2
		if err := f.startEngine(ctx, plan, role, n); err != nil {
			return err
		}
		cfg.Workers.Specs = append(cfg.Workers.Specs, workers.Spec{Role: role, URL: f.engines[i].URL()})
	}
	var err error
	if cfg.Port, err = f.port(ctx, plan.ports.router, "the router"); err != nil {
		return err
	}
	if cfg.MetricsPort, err = f.port(ctx, plan.ports.metrics, "its metrics"); err != nil {
		return err
	}
	if err := cfg.Validate(); err != nil {
		return err
	}
	return f.startRouter(ctx, cfg)
}

// startEngine starts engine n of a role.
func (f *demoFleet) startEngine(ctx context.Context, plan demoPlan, role workers.Role, n int) error {
	e := demoEngine{role: role.String(), id: fmt.Sprintf("%s-%d", role, n)}
	cfg, ports := plan.engine(role), plan.ports
	api, side := ports.decode[n], 0
	if role == workers.Prefill {
		api, side = ports.prefill[n], ports.bootstrap[n]
	}
	api, err := f.port(ctx, api, e.id)
	if err != nil {
		return err
	}
	cfg.Addr = net.JoinHostPort(demoHost, strconv.Itoa(api))
	if role == workers.Prefill {
		if side, err = f.port(ctx, side, "the bootstrap server of "+e.id); err != nil {
			return err
		}
		cfg.BootstrapAddr = net.JoinHostPort(demoHost, strconv.Itoa(side))
	}
	if e.Engine, err = sim.New(cfg); err != nil {
		return err
	}
	f.engines = append(f.engines, e)
	f.parts.Go(func() error {
		if err := e.Run(ctx); err != nil {
			return fmt.Errorf("%s: %w", e.id, err)
		}
		return nil
	})
	return nil
}

// startRouter starts the router and waits for its workers.
func (f *demoFleet) startRouter(ctx context.Context, cfg Config) error {
	d, err := newDaemon(ctx, cfg, nil, zap.New(f.access))
	if err != nil {
		return err
	}
	running, stop := context.WithCancel(ctx)
	f.stopRouter = stop
	f.router.Go(func() error { return d.run(running) })
	f.base, f.metrics = "http://"+d.data.Addr().String(), "http://"+d.scrape.Addr().String()+"/metrics"
	f.client = &bench.Client{
		URL: f.base, Model: sim.DefaultConfig().Model, Expect: sim.Expect,
		HTTP: &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 256, DisableCompression: true}},
	}
	d.registry.Look(ctx)
	for _, s := range d.registry.Statuses() {
		if s.State != workers.Ready {
			return fmt.Errorf("worker %s is not ready: %s", s.Worker.ID, s.Reason)
		}
	}
	return ctx.Err()
}

// port returns want if nobody listens there, else another one, and keeps what
// there is to say of it.
func (f *demoFleet) port(ctx context.Context, want int, whose string) (int, error) {
	listen := func(port int) (int, error) {
		ln, err := new(net.ListenConfig).Listen(ctx, "tcp", net.JoinHostPort(demoHost, strconv.Itoa(port)))
		if err != nil {
			return 0, err
		}
		defer ln.Close()
		return ln.Addr().(*net.TCPAddr).Port, nil
	}
	got, err := listen(want)
	if err == nil {
		return got, nil
	}
	if got, err = listen(0); err != nil {
		return 0, fmt.Errorf("find a free port for %s: %w", whose, err)
	}
	f.taken = append(f.taken, fmt.Sprintf("Port %d is taken; %s has %d instead.", want, whose, got))
	return got, nil
}

// close stops the router, then the engines, and returns what went wrong while
// they ran.
func (f *demoFleet) close() error {
	if f.client != nil {
		// A server that shuts down waits for connections on which no request
		// has come yet; requests that were cut off leave such ones behind.
		f.client.HTTP.CloseIdleConnections()
	}
	f.stopRouter()
	err := f.router.Wait()
	f.stopEngines()
	return errors.Join(err, f.parts.Wait())
}

// where returns a worker's name and its port, as in prefill-0 (:21000).
func (f *demoFleet) where(id string) string {
	for _, e := range f.engines {
		if e.id == id {
			return fmt.Sprintf("%s (%s)", id, portOf(e.URL()))
		}
	}
	return id
}

// stats returns what each engine is doing and has done.
func (f *demoFleet) stats() []sim.Stats {
	all := make([]sim.Stats, len(f.engines))
	for i, e := range f.engines {
		all[i] = e.Stats()
	}
	return all
}

// served returns how many requests each engine has had since before.
func (f *demoFleet) served(before []sim.Stats) []demoShare {
	shares := make([]demoShare, len(f.engines))
	for i, st := range f.stats() {
		shares[i] = demoShare{Worker: f.engines[i].id, Role: f.engines[i].role, Requests: int(st.TotalRequests - before[i].TotalRequests)}
	}
	return shares
}

// hits returns how many prompt tokens the prefill engines have looked up since
// before, and how many of them they found in their caches.
func (f *demoFleet) hits(before []sim.Stats) (queried, found int) {
	for i, st := range f.stats() {
		if f.engines[i].role == sim.Prefill {
			queried += int(st.QueriedTokens - before[i].QueriedTokens)
			found += int(st.HitTokens - before[i].HitTokens)
		}
	}
	return queried, found
}

// violations returns what the engines saw that must not be, and which of them.
func (f *demoFleet) violations() []string {
	all := []string{}
	for _, e := range f.engines {
		for _, v := range e.Violations() {
			all = append(all, e.id+": "+v)
		}
	}
	return all
}

// portOf returns the port of a URL, with its colon.
func portOf(url string) string { return url[strings.LastIndexByte(url, ':'):] }

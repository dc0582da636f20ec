package enginetest

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"pdrouter/sim"
)

const model = "smollm2"

// A pair is a prefill and a decode engine of one dialect and a router before
// them.
type pair struct {
	name            string // in the output
	dialect         string // vllm or sglang
	real            bool
	prefill, decode *engine
	plain           *engine // answers by itself; nil of sim, prefill of vLLM
	router          *engine
	metrics         string // URL of the router's page
	context         int    // tokens that fit, prompt and answer
	patience        time.Duration
}

// An engine is a process that serves HTTP. The router is one too.
type engine struct {
	*process
	role, url, health string
}

// up starts the engine and waits until it serves.
func (e *engine) up(t *testing.T, limit time.Duration) time.Duration {
	t.Helper()
	e.start(t)
	return eventually(t, limit, e.well)
}

// well reports whether it serves.
func (e *engine) well() error {
	if !e.running() {
		return fmt.Errorf("%w: %s has ended\n%s", errNever, e.name, e.tail())
	}
	ctx, stop := context.WithTimeout(context.Background(), 3*time.Second)
	defer stop()
	status, body, err := get(ctx, e.url+e.health)
	if err != nil || status != http.StatusOK {
		return fmt.Errorf("%s: %s is %d: %w %.200s", e.name, e.health, status, err, body)
	}
	return nil
}

// newSimPair returns a pair of sim's engines, not yet started, that are as slow
// as needed for an answer to have a middle.
func newSimPair(t *testing.T, dialect string) *pair {
	p := &pair{name: "sim-" + dialect, dialect: dialect, context: 131_072, patience: 10 * time.Second}
	full := map[string]string{"vllm": sim.VLLMNixl, "sglang": sim.SGLang}[dialect]
	make := func(role string) *engine {
		ports := freePorts(t, 2)
		return p.newEngine(role, ports[0], []string{
			*router, "sim", "--dialect", full, "--role", role, "--port", ports[0], "--bootstrap-port", ports[1], "--model", model,
			"--block-size", map[string]string{"vllm": "32", "sglang": "1"}[dialect], "--kv-tokens", "23296", "--max-running", "16",
			"--prefill-us-per-token", "200", "--decode-us-per-token", "10000", "--control",
		})
	}
	p.prefill, p.decode = make("prefill"), make("decode")
	p.newRouter(t)
	return p
}

// newRealPair returns a pair of real engines, not yet started.
func newRealPair(t *testing.T, dialect string) *pair {
	p := &pair{name: dialect, dialect: dialect, real: true, context: 2048, patience: 5 * time.Minute}
	make := func(role string) *engine {
		ports := freePorts(t, 2)
		return p.newEngine(role, ports[0], []string{"bash", filepath.Join("setup", dialect, "serve.sh"), *enginesDir, role, ports[0], ports[1]})
	}
	p.prefill, p.decode = make("prefill"), make("decode")
	p.plain = p.prefill
	if dialect == "sglang" { // its prefill engines answer nobody without a decode engine
		p.plain = make("plain")
	}
	if *attach != "" {
		urls := strings.Split(*attach, ",")
		for i, e := range []*engine{p.prefill, p.decode, p.plain}[:len(urls)] {
			e.url, e.command = urls[i], nil
		}
	}
	p.newRouter(t)
	return p
}

func (p *pair) newEngine(role, port string, command []string) *engine {
	return &engine{&process{name: p.name + "-" + role, command: command}, role, "http://127.0.0.1:" + port, "/health"}
}

// newRouter adds the router, which has to find the dialect by itself.
func (p *pair) newRouter(t *testing.T) {
	ports := freePorts(t, 2)
	p.metrics = "http://127.0.0.1:" + ports[1] + "/metrics"
	p.router = p.newEngine("router", ports[0], []string{
		*router, "serve", "--host", "127.0.0.1", "--port", ports[0], "--prometheus-host", "127.0.0.1", "--prometheus-port", ports[1],
		"--admin-socket", filepath.Join(t.TempDir(), "admin.sock"), "--log-json", "--load-monitor-interval", "0.5",
		"--worker-startup-check-interval", "0.2", "--prefill", p.prefill.url, "--decode", p.decode.url,
	})
	p.router.health = "/readiness"
}

// start starts all at once, the engines first. What was installed needs a
// minute or two to import itself.
func (s *suite) start(t *testing.T) string {
	all := []*engine{s.prefill, s.decode}
	if s.plain != nil && s.plain != s.prefill {
		all = append(all, s.plain)
	}
	for _, e := range append(all, s.router) {
		e.start(t)
		s.t.Cleanup(e.kill)
	}
	began, figures := time.Now(), ""
	for _, e := range all {
		eventually(t, s.patience, e.well)
		figures += fmt.Sprintf("%s %.0f s, ", e.role, time.Since(began).Seconds())
	}
	took := eventually(t, 30*time.Second, s.router.well)
	return figures + fmt.Sprintf("router ready %.1f s later", took.Seconds())
}

// atRest reports what is left on the engines and in the router.
func (p *pair) atRest() error {
	return errors.Join(p.idle(p.prefill), p.idle(p.decode), p.routerIdle())
}

// idle reports what an engine still has: requests, and KV that somebody uses.
func (p *pair) idle(e *engine) error {
	l, err := p.load(e)
	if err == nil && l.running+l.waiting+l.moving+l.used > 0 {
		err = fmt.Errorf("%s has %+v", e.name, l)
	}
	return err
}

// routerIdle reports what the router believes to have.
func (p *pair) routerIdle() error {
	ours, err := scrape(p.metrics)
	if err != nil {
		return err
	}
	for _, name := range []string{"smg_worker_requests_active", "smg_http_connections_active", "pdrouter_buffered_request_bytes"} {
		if n := ours.sum(name); n != 0 {
			return fmt.Errorf("the router's %s is %v", name, n)
		}
	}
	return nil
}

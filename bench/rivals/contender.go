package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"time"

	"pdrouter/sim"
)

// A contender is a router before engines of one dialect.
type contender struct {
	Name    string `json:"name"`
	Dialect string `json:"dialect"`
}

// ours is the name of our router.
const ours = "pdrouter"

func (c contender) String() string {
	if c.Name == ours && c.Dialect == sim.VLLMNixl {
		return ours + " (NIXL)"
	}
	return c.Name
}

// rivals are the names of the others.
func rivals() []string { return []string{"smg", "sglang-router", "vllm-router"} }

// contenders are all that fail and are failed, ours in both dialects.
func contenders() []contender {
	return []contender{
		{ours, sim.SGLang},
		{"smg", sim.SGLang},
		{"sglang-router", sim.SGLang},
		{ours, sim.VLLMNixl},
		{"vllm-router", sim.VLLMNixl},
	}
}

// A proxy is a router that runs.
type proxy struct {
	*process

	url     string
	metrics string
}

// startTime bounds how long a router may take until it carries requests.
const startTime = time.Minute

// start runs a contender before a fleet until it carries requests. It keeps its
// defaults, but that it is told to look early at workers that are not ready.
func (b *bench) start(ctx context.Context, c contender, f *fleet) (*proxy, error) {
	port, metrics, err := freePorts(ctx)
	if err != nil {
		return nil, err
	}
	listen := []string{"--host", "127.0.0.1", "--port", port, "--prometheus-host", "127.0.0.1", "--prometheus-port", metrics}
	exe, args := b.opts.router, []string{"serve", "--admin-socket", "none", "--worker-startup-check-interval", "0.1"}
	switch c.Name {
	case "smg", "sglang-router":
		exe, args = filepath.Join(b.opts.dir, c.Name, "bin", "smg"), []string{"launch", "--pd-disaggregation", "--worker-startup-check-interval", "1"}
	case "vllm-router":
		exe, args = filepath.Join(b.opts.dir, c.Name, "bin", c.Name), []string{"--vllm-pd-disaggregation", "--kv-connector", "nixl"}
	}
	p := &proxy{url: "http://127.0.0.1:" + port, metrics: "http://127.0.0.1:" + metrics + "/metrics"}
	if p.process, err = startProcess(b.tmp, exe, append(append(args, listen...), f.flags()...)); err != nil {
		return nil, err
	}
	if err := p.await(ctx); err != nil {
		p.stop()
		return nil, fmt.Errorf("start %s: %w; the end of its log:\n%s", c.Name, err, p.lastWords())
	}
	return p, nil
}

// await returns when some requests in a row are answered: a router may know one
// pair before it knows the others.
func (p *proxy) await(ctx context.Context) error {
	ctx, cancel := context.WithTimeoutCause(ctx, startTime, errors.New("it does not answer within a minute"))
	defer cancel()
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	for good := 0; good < 8; {
		got := p.ask(ctx, order{n: good})
		if got.right() {
			good++
			continue
		}
		good = 0
		select {
		case <-ctx.Done():
			return errors.Join(context.Cause(ctx), fmt.Errorf("it says: %s", got))
		case <-p.ended:
			return errors.New("it has ended")
		case <-tick.C:
		}
	}
	return nil
}

func freePorts(ctx context.Context) (one, other string, err error) {
	var ports []string
	for range 2 {
		ln, err := new(net.ListenConfig).Listen(ctx, "tcp", "127.0.0.1:0")
		if err != nil {
			return "", "", err
		}
		defer ln.Close() // both at the end, so that they differ
		_, port, _ := net.SplitHostPort(ln.Addr().String())
		ports = append(ports, port)
	}
	return ports[0], ports[1], nil
}

// lastWords returns the end of the process's log.
func (p *process) lastWords() string {
	text, _ := os.ReadFile(p.log) // without it there is less to say
	return strings.TrimSpace(string(text[max(0, len(text)-1500):]))
}

// newClient returns a client that opens a connection for each request at a time.
func newClient() *http.Client {
	return &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 64, DisableCompression: true}}
}

package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"
)

// A stage is the engines, and what is needed to run a system in front of them.
type stage struct {
	opts              options
	dir               string // for binaries and logs
	self              string // this program
	router            string // the router's binary
	engines           *process
	prefills, decodes []string // host:port
}

// perRole is how many engines there are of either role.
const perRole = 2

// newStage starts the engines.
func newStage(ctx context.Context, opts options, dir string) (*stage, error) {
	s := &stage{opts: opts, dir: dir}
	var err error
	if s.self, err = os.Executable(); err != nil {
		return nil, err
	}
	if s.router, err = findRouter(ctx, opts.router, dir); err != nil {
		return nil, err
	}
	ports, err := freeAddrs(ctx, 2*perRole)
	if err != nil {
		return nil, err
	}
	s.prefills, s.decodes = ports[:perRole], ports[perRole:]
	s.engines, err = start(ctx, dir, s.self, "engines", opts.dialect, strings.Join(s.prefills, ","), strings.Join(s.decodes, ","))
	return s, err
}

// findRouter returns the binary at path, or builds one.
func findRouter(ctx context.Context, path, dir string) (string, error) {
	if _, err := os.Stat(path); err == nil {
		return filepath.Abs(path)
	}
	built := filepath.Join(dir, "pdrouter")
	cmd := exec.CommandContext(ctx, "go", "build", "-trimpath", "-o", built, "pdrouter/cmd/pdrouter")
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("build the router: %w\n%s", err, out)
	}
	return built, nil
}

// freeAddrs returns n addresses on loopback that nobody listens at.
func freeAddrs(ctx context.Context, n int) ([]string, error) {
	var addrs []string
	for range n {
		ln, err := new(net.ListenConfig).Listen(ctx, "tcp", "127.0.0.1:0")
		if err != nil {
			return nil, err
		}
		defer ln.Close() // all at the end, so that they differ
		addrs = append(addrs, ln.Addr().String())
	}
	return addrs, nil
}

// A system is one proxy, running.
type system struct {
	*process
	name string
	addr string
}

// start runs a system and returns when it carries requests.
func (s *stage) start(ctx context.Context, name string) (*system, error) {
	addrs, err := freeAddrs(ctx, 2)
	if err != nil {
		return nil, err
	}
	sys := &system{name: name, addr: addrs[0]}
	prefills, decodes := strings.Join(s.prefills, ","), strings.Join(s.decodes, ",")
	patience := 10 * time.Second
	if _, ok := rivals()[name]; ok {
		patience = time.Minute // some look at their workers rarely
		sys.process, err = s.startRival(ctx, name, addrs[0], addrs[1])
	} else if name == router || name == other {
		binary := s.router
		if name == other {
			binary = s.opts.other
		}
		sys.process, err = start(ctx, s.dir, binary, s.routerArgs(addrs[0], addrs[1])...)
	} else {
		sys.process, err = start(ctx, s.dir, s.self, "proxy", name, sys.addr, s.opts.dialect, prefills, decodes)
	}
	if err != nil {
		return nil, err
	}
	if err := sys.await(ctx, patience); err != nil {
		sys.stop()
		return nil, sys.explain(fmt.Errorf("start %s: %w", name, err))
	}
	return sys, nil
}

func (s *stage) routerArgs(data, metrics string) []string {
	_, port, _ := net.SplitHostPort(data)
	_, metricsPort, _ := net.SplitHostPort(metrics)
	args := []string{
		"serve", "--host", "127.0.0.1", "--port", port, "--prometheus-host", "127.0.0.1", "--prometheus-port", metricsPort, "--admin-socket", "none",
		"--dialect", s.opts.dialect, "--worker-startup-check-interval", "0.1",
	}
	for i := range perRole {
		args = append(args, "--prefill", "http://"+s.prefills[i], "--decode", "http://"+s.decodes[i])
	}
	return args
}

// await returns when the system answers.
func (s *system) await(ctx context.Context, patience time.Duration) error {
	ctx, cancel := context.WithTimeoutCause(ctx, patience, fmt.Errorf("it does not answer within %v", patience))
	defer cancel()
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for {
		err := s.try(ctx)
		if err == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			return errors.Join(context.Cause(ctx), err)
		case <-tick.C:
		}
	}
}

func (s *system) try(ctx context.Context) error {
	c, err := newClient(ctx, s.addr, workloads()[0], 0)
	if err != nil {
		return err
	}
	defer c.conn.Close()
	_ = c.conn.SetDeadline(time.Now().Add(time.Second)) // it was opened just now
	return c.once()
}

// legs asks the engines what they have answered.
func (s *stage) legs(ctx context.Context) (counts, error) {
	var n counts
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+s.decodes[0]+"/counts", nil)
	if err != nil {
		return n, err
	}
	transport := newTransport()
	defer transport.CloseIdleConnections()
	answer, err := transport.RoundTrip(req)
	if err != nil {
		return n, fmt.Errorf("ask the engines: %w", err)
	}
	defer answer.Body.Close()
	return n, json.NewDecoder(answer.Body).Decode(&n)
}

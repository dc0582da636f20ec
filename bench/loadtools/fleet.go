package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"strconv"
	"sync"
	"syscall"
	"time"

	"pdrouter/sim"
)

// What the engines are told to take. A prompt of some hundred tokens and an
// answer of answerTokens are done in a second.
const (
	prefillPerToken = 2 * time.Millisecond
	decodePerToken  = 20 * time.Millisecond
	promptTokens    = 200 // by the tools' count
	answerTokens    = 32
)

// readyTime is how long the router has to be ready.
const readyTime = 20 * time.Second

// A fleet is two engines of either role and a router, which is a process.
type fleet struct {
	url     string
	dialect string
	prefill []*sim.Engine
	stop    func() // ends all of it
}

// newFleet runs a fleet until stop is called or ctx ends.
func newFleet(ctx context.Context, dialect, binary string) (*fleet, error) {
	ctx, cancel := context.WithCancel(ctx)
	var running sync.WaitGroup
	f := &fleet{dialect: dialect, stop: func() { cancel(); running.Wait() }}
	port, err := freePort(ctx)
	if err != nil {
		cancel()
		return nil, err
	}
	f.url = "http://127.0.0.1:" + port
	args := []string{"serve", "--host", "127.0.0.1", "--port", port, "--prometheus-host", "127.0.0.1", "--prometheus-port", "0", "--admin-socket", "none", "--log-level", "warn"}
	for i := range 4 {
		e, err := newEngine(dialect, [...]string{sim.Prefill, sim.Decode}[i/2])
		if err != nil {
			f.stop()
			return nil, err
		}
		running.Go(func() { _ = e.Run(ctx) })
		if i < 2 {
			f.prefill = append(f.prefill, e)
		}
		args = append(args, [...]string{"--prefill", "--decode"}[i/2], e.URL())
	}
	router := exec.CommandContext(ctx, binary, args...)
	router.Stderr = os.Stderr
	router.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := router.Start(); err != nil {
		f.stop()
		return nil, fmt.Errorf("start %s: %w", binary, err)
	}
	running.Go(func() { _ = router.Wait() })
	if err := f.await(ctx); err != nil {
		f.stop()
		return nil, err
	}
	return f, nil
}

// newEngine returns an engine that caches no prompts: its blocks are longer, so
// that each takes the time that it was told.
func newEngine(dialect, role string) (*sim.Engine, error) {
	cfg := sim.DefaultConfig()
	cfg.Dialect, cfg.Role = dialect, role
	cfg.BlockSize, cfg.KVTokens = 4096, 1<<20
	cfg.PrefillPerToken, cfg.DecodePerToken = prefillPerToken, decodePerToken
	cfg.BootstrapAddr = "127.0.0.1:0"
	return sim.New(cfg)
}

func freePort(ctx context.Context) (string, error) {
	ln, err := (&net.ListenConfig{}).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	defer ln.Close()
	return strconv.Itoa(ln.Addr().(*net.TCPAddr).Port), nil
}

// await waits until the router is ready.
func (f *fleet) await(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, readyTime)
	defer cancel()
	client := &http.Client{}
	defer client.CloseIdleConnections()
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for {
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, f.url+"/readiness", nil)
		if err != nil {
			return err
		}
		if resp, err := client.Do(req); err == nil {
			resp.Body.Close()
			if resp.StatusCode == http.StatusOK {
				return nil
			}
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return errors.New("the router is not ready")
		}
	}
}

// prompts returns how many prompts prefill has had, and their tokens.
func (f *fleet) prompts() (n, tokens uint64) {
	for _, e := range f.prefill {
		st := e.Stats()
		n, tokens = n+st.Finished, tokens+st.PromptTokens
	}
	return n, tokens
}

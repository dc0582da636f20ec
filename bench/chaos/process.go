package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"syscall"
	"time"
)

// A process is a router or an engine, running. Its log is a file.
type process struct {
	cmd    *exec.Cmd
	log    string        // path
	exited chan struct{} // closed when it has ended
	err    error         // of its end; read after exited
}

// start runs a command until it ends by itself, is killed, or we die.
func start(log, exe string, args ...string) (*process, error) {
	out, err := os.OpenFile(log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return nil, err
	}
	defer out.Close()
	p := &process{
		cmd: exec.Command(exe, args...), //nolint:noctx // its end is part of the test, a context's would not be
		log: log, exited: make(chan struct{}),
	}
	p.cmd.Stdout, p.cmd.Stderr = out, out
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := p.cmd.Start(); err != nil {
		return nil, fmt.Errorf("start %s: %w", exe, err)
	}
	go func() {
		p.err = p.cmd.Wait()
		close(p.exited)
	}()
	return p, nil
}

// signal sends a signal, unless the process has ended.
func (p *process) signal(s syscall.Signal) {
	_ = p.cmd.Process.Signal(s) // it has ended: then exited says so
}

// end sends a signal and waits for the process to end. What does not end in
// time is killed, which is an error.
func (p *process) end(s syscall.Signal, limit time.Duration) error {
	p.signal(s)
	timer := time.NewTimer(limit)
	defer timer.Stop()
	select {
	case <-p.exited:
		return p.err
	case <-timer.C:
		p.signal(syscall.SIGKILL)
		<-p.exited
		return fmt.Errorf("it has not ended %v after %v", limit, s)
	}
}

// running reports whether the process has not ended.
func (p *process) running() bool {
	select {
	case <-p.exited:
		return false
	default:
		return true
	}
}

// build builds pdrouter into dir, with the race detector or as it is shipped.
func build(ctx context.Context, dir string, race bool) (string, error) {
	exe, args, cgo := filepath.Join(dir, "pdrouter"), []string{"build"}, "CGO_ENABLED=0"
	if race {
		exe, args, cgo = exe+"-race", append(args, "-race"), "CGO_ENABLED=1"
	}
	cmd := exec.CommandContext(ctx, "go", append(args, "-o", exe, "pdrouter/cmd/pdrouter")...)
	cmd.Env = append(os.Environ(), cgo)
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("build the router: %w\n%s", err, out)
	}
	return exe, nil
}

// A faults collects what was wrong, from many goroutines.
type faults struct {
	mu  sync.Mutex
	all []error
}

// maxTold is how many faults are told in full: one bug makes many.
const maxTold = 10

func (f *faults) add(format string, args ...any) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.all = append(f.all, fmt.Errorf(format, args...))
}

// err returns all that was wrong as one error.
func (f *faults) err() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if len(f.all) <= maxTold {
		return errors.Join(f.all...)
	}
	return errors.Join(append(f.all[:maxTold:maxTold], fmt.Errorf("and %d faults more", len(f.all)-maxTold))...)
}

func (f *faults) count() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return len(f.all)
}

// pause waits, and reports false if ctx ended first.
func pause(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// eventually waits until so returns nil, and returns what it said last if that
// does not come in time.
func eventually(ctx context.Context, limit time.Duration, so func() error) error {
	deadline := time.Now().Add(limit)
	for {
		err := so()
		if err == nil || time.Now().After(deadline) || !pause(ctx, 100*time.Millisecond) {
			return err
		}
	}
}

package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// A process is one part of the benchmark, running.
type process struct {
	cmd *exec.Cmd
	log string // path

	stranger bool // no program of ours: it may have children, and threads that end
}

// start runs a command until stop is called, ctx ends or we die.
func start(ctx context.Context, dir, exe string, args ...string) (*process, error) {
	log, err := os.CreateTemp(dir, filepath.Base(exe)+"-*.log")
	if err != nil {
		return nil, err
	}
	defer log.Close()
	p := &process{cmd: exec.CommandContext(ctx, exe, args...), log: log.Name()}
	p.cmd.Stdout, p.cmd.Stderr = log, log
	p.cmd.Cancel = func() error { return p.cmd.Process.Signal(syscall.SIGTERM) }
	p.cmd.WaitDelay = 5 * time.Second
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := p.cmd.Start(); err != nil {
		return nil, fmt.Errorf("start %s: %w", exe, err)
	}
	return p, nil
}

// stop kills the process: what it has in flight does not matter.
func (p *process) stop() {
	if p.stranger {
		for _, pid := range p.tree() {
			_ = syscall.Kill(pid, syscall.SIGKILL) // it may have ended
		}
	}
	_ = p.cmd.Process.Kill()
	_ = p.cmd.Wait() // it says that it was killed
}

// explain adds to err what the process last said.
func (p *process) explain(err error) error {
	text, _ := os.ReadFile(p.log) // without it there is less to say
	if len(text) > 2000 {
		text = text[len(text)-2000:]
	}
	return fmt.Errorf("%w; the end of its log:\n%s", err, text)
}

// cpu returns the CPU time, user and system, that the process's threads have
// used. It is the scheduler's own account, in nanoseconds; /proc/PID/stat has
// the same sum in hundredths of a second. Go ends no thread, so none is missed.
func (p *process) cpu() (time.Duration, error) {
	if p.stranger {
		return p.treeCPU()
	}
	threads, err := filepath.Glob(p.path("task/*/schedstat"))
	if err != nil || len(threads) == 0 {
		return 0, errors.Join(errors.New("read CPU time: the process has no threads"), err)
	}
	var sum time.Duration
	for _, path := range threads {
		text, err := os.ReadFile(path)
		if err != nil {
			return 0, fmt.Errorf("read CPU time: %w", err)
		}
		used, _, _ := strings.Cut(string(text), " ")
		ns, err := strconv.ParseInt(used, 10, 64)
		if err != nil {
			return 0, fmt.Errorf("read CPU time: %w", err)
		}
		sum += time.Duration(ns)
	}
	return sum, nil
}

// memory returns what the process has of memory, and the most that it had
// since forgetPeak, in bytes.
func (p *process) memory() (now, peak int64, err error) {
	if p.stranger {
		return p.treeMemory()
	}
	text, err := p.proc("status")
	if err != nil {
		return 0, 0, err
	}
	now, peak = resident(text)
	return now, peak, nil
}

// resident returns what a status page of /proc says of memory.
func resident(text []byte) (now, peak int64) {
	for line := range strings.Lines(string(text)) {
		name, value, _ := strings.Cut(line, ":")
		kb, err := strconv.ParseInt(strings.TrimSuffix(strings.TrimSpace(value), " kB"), 10, 64)
		switch {
		case err != nil:
		case name == "VmRSS":
			now = kb << 10
		case name == "VmHWM":
			peak = kb << 10
		}
	}
	return now, peak
}

// forgetPeak makes the peak what there is now.
func (p *process) forgetPeak() {
	_ = os.WriteFile(p.path("clear_refs"), []byte("5"), 0) // where it is forbidden, the peak is that of all runs
}

func (p *process) proc(file string) ([]byte, error) { return os.ReadFile(p.path(file)) }

func (p *process) path(file string) string {
	return fmt.Sprintf("/proc/%d/%s", p.cmd.Process.Pid, file)
}

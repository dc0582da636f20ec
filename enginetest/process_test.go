package enginetest

import (
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"
)

// A process is an engine or a router. Its children are of its group, and end
// with it.
type process struct {
	name    string // of its log
	command []string
	env     []string
	cmd     *exec.Cmd
	exited  chan struct{}
}

func (p *process) log() string { return filepath.Join(*logs, p.name+".log") }

// start starts it; it ends with the test at the latest.
func (p *process) start(t *testing.T) {
	t.Helper()
	if p.command == nil { // it runs already
		return
	}
	out, err := os.OpenFile(p.log(), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		t.Fatal(err)
	}
	defer out.Close()
	cmd := exec.Command(p.command[0], p.command[1:]...)
	cmd.Stdout, cmd.Stderr = out, out
	cmd.Env = append(os.Environ(), p.env...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	exited := make(chan struct{})
	go func() {
		_ = cmd.Wait()
		close(exited)
	}()
	p.cmd, p.exited = cmd, exited
}

// running reports whether it has not ended.
func (p *process) running() bool {
	select {
	case <-p.exited:
		return false
	default:
		return true
	}
}

// kill ends it and its children at once, as a host that fails would.
func (p *process) kill() {
	if p.cmd != nil {
		_ = syscall.Kill(-p.cmd.Process.Pid, syscall.SIGKILL)
		<-p.exited
	}
}

// tail returns the end of its log.
func (p *process) tail() string {
	f, err := os.Open(p.log())
	if err != nil {
		return err.Error()
	}
	defer f.Close()
	if size, err := f.Seek(0, io.SeekEnd); err == nil {
		_, _ = f.Seek(max(0, size-3000), io.SeekStart)
	}
	text, _ := io.ReadAll(f)
	return string(text)
}

// freePorts returns ports that nobody listens at, below those that the system
// gives to outgoing connections, so that an engine that is down keeps its own.
func freePorts(t *testing.T, n int) []string {
	t.Helper()
	var ports []string
	for range 1000 {
		port := fmt.Sprint(20000 + rand.IntN(12000))
		l, err := net.Listen("tcp", "127.0.0.1:"+port)
		if err != nil {
			continue
		}
		defer l.Close() // all at the end, so that they differ
		if ports = append(ports, port); len(ports) == n {
			return ports
		}
	}
	t.Fatal("no free ports")
	return nil
}

// eventually waits until so returns nil, and fails with what it said last if
// that does not come in time. It returns how long it took.
func eventually(t *testing.T, limit time.Duration, so func() error) time.Duration {
	t.Helper()
	began := time.Now()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		err := so()
		if err == nil {
			return time.Since(began)
		}
		if time.Since(began) > limit || errors.Is(err, errNever) {
			t.Fatalf("after %v: %v", time.Since(began).Round(time.Millisecond), err)
		}
		<-tick.C
	}
}

// errNever is for what no waiting will change.
var errNever = errors.New("it will not be")

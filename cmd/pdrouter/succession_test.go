package main

import (
	"bytes"
	"errors"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"sync"
	"syscall"
	"testing"
	"time"
)

// A service is pdrouter serve as the service of a fake manager, with successors,
// which are children of this test process like the first one.
type service struct {
	t       *testing.T
	m       *fakeManager
	program string // what is started: a link to this test binary
	admin   string // path of the admin socket
	base    string // URL
	data    *net.TCPListener

	mu    sync.Mutex
	pids  []int            // in the order in which they were started
	ended map[int]chan int // closed when one has ended; has its status
	lines bytes.Buffer     // the log of all of them
}

// startService runs a service at a socket that its manager holds. What it has
// started is killed at the end of the test.
func startService(t *testing.T, args ...string) *service {
	t.Helper()
	dir := t.TempDir()
	s := &service{t: t, m: newFakeManager(t), program: filepath.Join(dir, "pdrouter"), admin: filepath.Join(dir, "admin.sock"), ended: map[int]chan int{}}
	s.install("")
	var err error
	if s.data, err = net.ListenTCP("tcp", &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1)}); err != nil {
		t.Fatal(err)
	}
	s.base = "http://" + s.data.Addr().String()
	t.Cleanup(func() {
		_ = s.data.Close()
		for _, pid := range s.all() {
			_ = syscall.Kill(pid, syscall.SIGKILL)
		}
		for _, pid := range s.all() {
			<-s.endOf(pid)
		}
		if t.Failed() {
			t.Logf("log of all processes:\n%s", s.log())
		}
	})
	s.start(args...)
	return s
}

// install puts a program where the service's is: a shell script, or this test
// binary if there is none.
func (s *service) install(script string) {
	s.t.Helper()
	next := s.program + ".new"
	var err error
	if script == "" {
		var this string
		if this, err = exec.LookPath("pdrouter"); err == nil {
			err = os.Symlink(this, next)
		}
	} else {
		err = os.WriteFile(next, []byte("#!/bin/sh\n"+script+"\n"), 0o755)
	}
	if err == nil {
		err = os.Rename(next, s.program)
	}
	if err != nil {
		s.t.Fatal(err)
	}
}

// start starts the service anew.
func (s *service) start(args ...string) {
	s.t.Helper()
	file, err := s.data.File()
	if err != nil {
		s.t.Fatal(err)
	}
	defer file.Close()
	out, writing, err := os.Pipe()
	if err != nil {
		s.t.Fatal(err)
	}
	cmd := exec.Command("sh", append([]string{
		"-c", `LISTEN_PID=$$ WATCHDOG_PID=$$ exec "$@"`, "sh", s.program, "serve", "--log-json",
		"--prometheus-host", "127.0.0.1", "--prometheus-port", "0", "--admin-socket", s.admin,
	}, args...)...)
	cmd.ExtraFiles, cmd.Stderr = []*os.File{file}, writing
	// In a test the program sees its name only, and finds itself by that.
	path := "PATH=" + filepath.Dir(s.program) + ":" + os.Getenv("PATH")
	cmd.Env = append(os.Environ(), path, "GORACE=atexit_sleep_ms=0", "NOTIFY_SOCKET="+s.m.path, "WATCHDOG_USEC=600000", "LISTEN_FDS=1", "LISTEN_FDNAMES=data")
	if err := cmd.Start(); err != nil {
		s.t.Fatal(err)
	}
	_ = writing.Close()
	go func() {
		buf := make([]byte, 1<<16)
		for {
			n, err := out.Read(buf)
			s.mu.Lock()
			s.lines.Write(buf[:n])
			s.mu.Unlock()
			if err != nil {
				_ = out.Close()
				return
			}
		}
	}()
	s.follow(cmd.Process.Pid)
}

// follow waits for a process to end.
func (s *service) follow(pid int) {
	ended := make(chan int, 1)
	s.mu.Lock()
	s.pids, s.ended[pid] = append(s.pids, pid), ended
	s.mu.Unlock()
	go func() {
		var status syscall.WaitStatus
		for {
			if _, err := syscall.Wait4(pid, &status, 0, nil); !errors.Is(err, syscall.EINTR) {
				break
			}
		}
		code := status.ExitStatus()
		if status.Signaled() {
			code = -int(status.Signal())
		}
		ended <- code
		close(ended)
	}()
}

func (s *service) endOf(pid int) <-chan int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.ended[pid]
}

func (s *service) all() []int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.pids)
}

// last returns the process that serves.
func (s *service) last() int {
	all := s.all()
	return all[len(all)-1]
}

func (s *service) log() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.lines.String()
}

// ready waits for the first process to be.
func (s *service) ready() {
	s.t.Helper()
	s.m.heard(s.t, "READY=1")
}

// command runs pdrouter with the admin socket of the service.
func (s *service) command(args ...string) (out string, status int) {
	cmd := exec.Command("pdrouter", append(args, "--admin-socket", s.admin)...)
	cmd.Env = append(os.Environ(), "GORACE=atexit_sleep_ms=0")
	b, err := cmd.CombinedOutput()
	if exit := (*exec.ExitError)(nil); errors.As(err, &exit) {
		return string(b), exit.ExitCode()
	} else if err != nil {
		s.t.Error(err)
	}
	return string(b), 0
}

// upgrade upgrades it, and returns how long that took.
func (s *service) upgrade() time.Duration {
	s.t.Helper()
	before, began := s.last(), time.Now()
	out, status := s.command("upgrade")
	took := time.Since(began)
	pids := regexp.MustCompile(`process (\d+) has taken over from (\d+)`).FindStringSubmatch(out)
	if status != 0 || pids == nil || pids[2] != strconv.Itoa(before) {
		s.t.Fatalf("upgrade of process %d ended with %d: %s", before, status, out)
	}
	pid, _ := strconv.Atoi(pids[1])
	s.follow(pid)
	s.m.heard(s.t, "MAINPID="+pids[1])
	return took
}

// wantEnd wants that a process ends with status 0 within limit.
func (s *service) wantEnd(pid int, limit time.Duration) {
	s.t.Helper()
	timer := time.NewTimer(limit)
	defer timer.Stop()
	select {
	case code := <-s.endOf(pid):
		if code != 0 {
			s.t.Errorf("process %d ended with %d, want 0", pid, code)
		}
	case <-timer.C:
		s.t.Errorf("process %d has not ended %v later", pid, limit)
	}
}

// crowds are clients that keep their connections and clients that do not.
func (s *service) crowds(each int, ask func(i int) step) []*crowd {
	keeping := newCrowd(s.t, s.base, each, ask)
	anew := &crowd{t: s.t, base: s.base, ask: ask, stop: make(chan struct{}), client: &http.Client{
		Timeout: 30 * time.Second, Transport: &http.Transport{DisableKeepAlives: true, DisableCompression: true},
	}}
	for range each {
		anew.wg.Go(anew.run)
	}
	return []*crowd{keeping, anew}
}

// flow waits until clients have been answered so many times more.
func flow(t *testing.T, crowds []*crowd, more int) {
	t.Helper()
	for _, c := range crowds {
		all := func(answered) bool { return true }
		want := c.seen(all) + more
		if !eventually(func() bool { return c.seen(all) >= want }) {
			t.Error("requests do not flow")
		}
	}
}

// wantAllWhole wants that every request had its answer, and none took longer
// than limit.
func wantAllWhole(t *testing.T, crowds []*crowd, limit time.Duration) {
	t.Helper()
	n, longest := 0, time.Duration(0)
	for _, c := range crowds {
		all := c.disperse()
		wantOutcomes(t, all, wholeAnswer)
		for _, a := range all {
			n, longest = n+1, max(longest, a.ended.Sub(a.began))
		}
	}
	t.Logf("%d requests, the longest took %v", n, longest.Round(time.Millisecond))
	if longest > limit {
		t.Errorf("a request took %v, want at most %v", longest, limit)
	}
}

// stop stops the service, and wants it to end well.
func (s *service) stop() {
	s.t.Helper()
	_ = syscall.Kill(s.last(), syscall.SIGTERM)
	s.wantEnd(s.last(), 10*time.Second)
	if _, err := os.Lstat(s.admin); err == nil {
		s.t.Error("the admin socket is still there")
	}
}

func (s *service) runs(pid int) bool {
	select {
	case <-s.endOf(pid):
		return false
	default:
		return true
	}
}

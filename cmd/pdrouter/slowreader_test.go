package main

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"pdrouter/sim"

	"golang.org/x/sys/unix"
)

const (
	slowReaders = 1000
	slowRead    = 64 // bytes per second

	// tokenTime is the pace of the engine in TestSlowReaders.
	tokenTime = 100 * time.Millisecond

	// maxRSS bounds the memory of a router whose clients are a thousand slow
	// readers, in MB: it has 17 alone, and 0.1 for each. One that collected what
	// they do not take would have 200 more.
	maxRSS = 160

	// maxDelay bounds by how much other streams' ITL may grow, at p99. The engine
	// must serve the slow ones too, on the same processors.
	maxDelay = 250 * time.Millisecond
)

// TestSlowReaders has a thousand clients read their long streams at 64 bytes a
// second. The router does not collect for them what they do not take (I9); those
// who read in time notice nothing; and after --client-stall-secs the slow ones
// end as clients that left, which counts against nobody (I7). Router and engines
// are processes of the real binary.
func TestSlowReaders(t *testing.T) {
	if testing.Short() {
		t.Skip("takes half a minute")
	}
	binary := buildBinary(t)
	// Each event has the model's name: so a stream is large and its pace slow.
	model := "sim-model-" + strings.Repeat("x", 1000)
	prefill := simOf(t, binary, "--role", sim.Prefill, "--model", model)
	decode := simOf(t, binary, "--role", sim.Decode, "--model", model, "--decode-us-per-token", strconv.Itoa(int(tokenTime.Microseconds())))
	router := serveOf(t, binary, "--prefill", prefill, "--decode", decode, "--client-stall-secs", "4")
	if !eventually(func() bool { return scrape(t, hostOf(router.metrics)).sum("smg_worker_health") == 2 }) {
		t.Fatal("the router is not ready")
	}
	alone := peakRSS(t, router.Process.Pid)

	fast := newFastStreams(t, router.base, model, 8)
	before := fast.itl(3 * time.Second)
	slow := newSlowStreams(t, router.base, model)
	amid := fast.itl(10 * time.Second)
	gone := func() float64 {
		return scrape(t, hostOf(router.metrics)).sum("pdrouter_answer_ends_total", `end="client_gone"`)
	}
	if !eventually(func() bool { return gone() == slowReaders }) {
		t.Errorf("%v of %d slow readers have ended as clients that left", gone(), slowReaders)
	}
	rss := peakRSS(t, router.Process.Pid)
	t.Logf("router memory: %d MB alone, %d MB at most with %d slow readers, who had read %d bytes each", alone, rss, slowReaders, slow.read()/slowReaders)
	t.Logf("ITL of %d other streams: p50 %v, p99 %v before; p50 %v, p99 %v amid them", len(fast.events), percentile(before, 50), percentile(before, 99), percentile(amid, 50), percentile(amid, 99))
	if rss > maxRSS {
		t.Errorf("the router had %d MB of memory, want at most %d", rss, maxRSS)
	}
	if was, is := percentile(before, 99), percentile(amid, 99); is > was+maxDelay {
		t.Errorf("ITL p99 of other streams went from %v to %v, want at most %v more", was, is, maxDelay)
	}
	fast.leave()
	slow.leave()
	wantEnded(t, router, prefill, decode)
}

// wantEnded wants that all is at rest and that nothing counts against an engine.
func wantEnded(t *testing.T, router *process, engines ...string) {
	t.Helper()
	var page page
	if !eventually(func() bool {
		page = scrape(t, hostOf(router.metrics))
		return page.sum("smg_worker_requests_active") == 0 && page.sum("smg_http_connections_active") == 0
	}) {
		t.Errorf("at rest there are %v leases", page.sum("smg_worker_requests_active"))
	}
	if n := page.sum("pdrouter_legs_total", `outcome="failed"`); n != 0 {
		t.Errorf("%v legs count as failed, want none", n)
	}
	for _, e := range engines {
		if !eventually(func() bool { return scrape(t, hostOf(e)).sum("sglang:num_running_reqs") == 0 }) {
			t.Errorf("engine %s still has requests", e)
		}
	}
}

// buildBinary builds what users run, as make build does.
func buildBinary(t *testing.T) string {
	t.Helper()
	binary := filepath.Join(t.TempDir(), "pdrouter")
	build := exec.Command("go", "build", "-trimpath", "-o", binary, ".")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("build: %v\n%s", err, out)
	}
	return binary
}

// simOf runs an SGLang engine as a process until the test ends, and returns
// its URL.
func simOf(t *testing.T, binary string, args ...string) (url string) {
	t.Helper()
	args = append([]string{"sim", "--dialect", sim.SGLang, "--max-running", "2000", "--kv-tokens", "4000000"}, args...)
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	t.Cleanup(cancel)
	cmd := exec.CommandContext(ctx, binary, args...)
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		cmd.Process.Signal(syscall.SIGTERM)
		if err := cmd.Wait(); err != nil {
			t.Errorf("%v ended with %v", args, err)
		}
	})
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	url, _, _ = strings.Cut(line, " ")
	return url
}

// peakRSS returns the most memory that a process has had, in MB.
func peakRSS(t *testing.T, pid int) int {
	t.Helper()
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		missing(t, "needs Linux's /proc: "+err.Error())
	}
	found := regexp.MustCompile(`VmHWM:\s+(\d+) kB`).FindSubmatch(status)
	if found == nil {
		t.Fatalf("no peak in\n%s", status)
	}
	kb, _ := strconv.Atoi(string(found[1]))
	return kb >> 10
}

func hostOf(url string) string { return strings.TrimPrefix(url, "http://") }

// askStream asks for a stream that takes minutes.
func askStream(t *testing.T, base, model, name string, dialer net.Dialer) net.Conn {
	conn, err := dialer.DialContext(t.Context(), "tcp", hostOf(base))
	if err != nil {
		t.Error(err)
		return nil
	}
	body := fmt.Sprintf(`{"model":%q,"prompt":%q,"max_tokens":2000,"ignore_eos":true,"stream":true}`, model, "A long story for "+name)
	fmt.Fprintf(conn, "POST /v1/completions HTTP/1.1\r\nHost: h\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s", len(body), body)
	return conn
}

// fastStreams are streams that are read as they come.
type fastStreams struct {
	t      *testing.T
	conns  []net.Conn
	events []chan time.Time // when the events of each came
	wg     sync.WaitGroup
}

func newFastStreams(t *testing.T, base, model string, n int) *fastStreams {
	t.Helper()
	f := &fastStreams{t: t}
	for i := range n {
		conn := askStream(t, base, model, fmt.Sprint("fast ", i), net.Dialer{})
		if conn == nil {
			t.FailNow()
		}
		events := make(chan time.Time, 4096)
		f.conns, f.events = append(f.conns, conn), append(f.events, events)
		f.wg.Go(func() {
			defer close(events)
			for lines := bufio.NewScanner(conn); lines.Scan(); {
				if strings.HasPrefix(lines.Text(), "data: ") {
					events <- time.Now()
				}
			}
		})
	}
	t.Cleanup(f.leave)
	return f
}

// itl returns the times between the events that come from now on.
func (f *fastStreams) itl(during time.Duration) []time.Duration {
	f.t.Helper()
	var all []time.Duration
	for _, events := range f.events {
		for len(events) > 0 { // of before
			<-events
		}
	}
	end := time.NewTimer(during)
	defer end.Stop()
	<-end.C
	for i, events := range f.events {
		last, ok := <-events
		for n := len(events); n > 0 && ok; n-- {
			var next time.Time
			if next, ok = <-events; ok {
				all, last = append(all, next.Sub(last)), next
			}
		}
		if !ok {
			f.t.Errorf("stream %d has ended", i)
		}
	}
	return all
}

func (f *fastStreams) leave() {
	for _, conn := range f.conns {
		conn.Close()
	}
	f.wg.Wait()
}

// slowStreams are streams that are read slowly.
type slowStreams struct {
	conns []net.Conn
	stop  context.CancelFunc
	wg    sync.WaitGroup

	mu    sync.Mutex
	bytes int
}

func newSlowStreams(t *testing.T, base, model string) *slowStreams {
	t.Helper()
	ctx, stop := context.WithCancel(context.Background())
	s := &slowStreams{stop: stop}
	t.Cleanup(s.leave)
	// The segments of a distant client are not loopback's, for ten of which the
	// router's kernel would hold more than a megabyte.
	small := net.Dialer{Control: func(_, _ string, c syscall.RawConn) error {
		return c.Control(func(fd uintptr) {
			_ = unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_RCVBUF, 4096)
			_ = unix.SetsockoptInt(int(fd), unix.IPPROTO_TCP, unix.TCP_MAXSEG, 536)
		})
	}}
	for i := range slowReaders {
		conn := askStream(t, base, model, fmt.Sprint("slow ", i), small)
		if conn == nil {
			t.FailNow()
		}
		s.conns = append(s.conns, conn)
		s.wg.Go(func() { s.readSlowly(ctx, conn) })
	}
	return s
}

// readSlowly reads until the router ends it or the test does.
func (s *slowStreams) readSlowly(ctx context.Context, conn net.Conn) {
	second := time.NewTicker(time.Second)
	defer second.Stop()
	for buf := make([]byte, slowRead); ; {
		select {
		case <-ctx.Done():
			return
		case <-second.C:
		}
		n, err := io.ReadFull(conn, buf)
		s.mu.Lock()
		s.bytes += n
		s.mu.Unlock()
		if err != nil {
			return
		}
	}
}

// read returns how many bytes were read.
func (s *slowStreams) read() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.bytes
}

func (s *slowStreams) leave() {
	s.stop()
	for _, conn := range s.conns {
		conn.Close()
	}
	s.wg.Wait()
}

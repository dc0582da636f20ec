package main

import (
	"bufio"
	"net"
	"net/http"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"pdrouter/sim"
)

const (
	waiters = 10_000

	// maxWaitersRSS bounds the memory of a router in which as many wait, in MB.
	maxWaitersRSS = 400
)

// TestTenThousandWaiters has so many clients with prompts of 1 KB wait for the
// one slot there is: what they cost the router is bounded, and when they leave,
// their places are free at once. Router and engines are processes of the real
// binary.
func TestTenThousandWaiters(t *testing.T) {
	if testing.Short() {
		t.Skip("takes a quarter of a minute")
	}
	var files syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &files); err != nil || files.Max < waiters+1000 {
		missing(t, "needs 11000 open files")
	}
	binary := buildBinary(t)
	prefill := simOf(t, binary, "--role", sim.Prefill)
	decode := simOf(t, binary, "--role", sim.Decode, "--decode-us-per-token", "100000")
	router := serveOf(t, binary, "--prefill", prefill, "--decode", decode, "--max-concurrent-requests", "1", "--queue-size", "10000", "--queue-timeout-secs", "600",
		"--max-connections", "11000")
	if !eventually(func() bool { return scrape(t, hostOf(router.metrics)).sum("smg_worker_health") == 2 }) {
		t.Fatal("the router is not ready")
	}
	alone := peakRSS(t, router.Process.Pid)
	depth := func() float64 { return scrape(t, hostOf(router.metrics)).sum("smg_admission_queue_depth") }

	conns := make([]net.Conn, waiters+1)
	t.Cleanup(func() {
		for _, c := range conns {
			if c != nil {
				c.Close()
			}
		}
	})
	story := strings.Repeat("and so on ", 100)
	conns[0] = askStream(t, router.base, "sim-model", "the one", net.Dialer{})
	var all sync.WaitGroup
	for part := range 8 {
		all.Go(func() {
			for i := 1 + part; i < len(conns); i += 8 {
				conns[i] = askStream(t, router.base, "sim-model", story, net.Dialer{})
			}
		})
	}
	all.Wait()
	if !eventually(func() bool { return depth() == waiters }) {
		t.Fatalf("%v wait, want %d", depth(), waiters)
	}
	rss := peakRSS(t, router.Process.Pid)
	t.Logf("router memory: %d MB alone, %d MB with %d that wait, %d KB each", alone, rss, waiters, (rss-alone)<<10/waiters)
	if rss > maxWaitersRSS {
		t.Errorf("the router had %d MB of memory, want at most %d", rss, maxWaitersRSS)
	}
	one := askStream(t, router.base, "sim-model", "one too many", net.Dialer{})
	defer one.Close()
	resp, err := http.ReadResponse(bufio.NewReader(one), nil)
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	if resp.StatusCode != http.StatusTooManyRequests {
		t.Errorf("one more got %d, want 429", resp.StatusCode)
	}
	begin := time.Now()
	for i, c := range conns[1:] {
		c.Close()
		conns[i+1] = nil
	}
	if !eventually(func() bool { return depth() == 0 }) {
		t.Errorf("%v wait after all have left", depth())
	}
	t.Logf("all had left after %v", time.Since(begin))
	conns[0].Close()
	wantEnded(t, router, prefill, decode)
}

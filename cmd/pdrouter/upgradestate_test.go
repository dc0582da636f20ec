package main

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"pdrouter/admin"
	"pdrouter/sim"
)

// status returns what GET /status tells.
func (s *service) status() (all admin.Status) {
	s.t.Helper()
	c, err := (&adminPlace{socket: s.admin}).client()
	if err != nil {
		s.t.Fatal(err)
	}
	defer c.close()
	if err := c.do(s.t.Context(), http.MethodGet, "/status", &all); err != nil {
		s.t.Fatal(err)
	}
	return all
}

// TestUpgradeKeepsWhatWasDone: workers that were added and removed, their IDs, drain
// marks, and a breaker that is open, whoever the process is.
func TestUpgradeKeepsWhatWasDone(t *testing.T) {
	e := make([]*sim.Engine, 6)
	for i := range e {
		e[i] = startEngine(t, sim.VLLMNixl, [...]string{sim.Prefill, sim.Decode}[i%2], nil)
	}
	s := startService(t, "--prefill", e[0].URL(), "--prefill", e[2].URL(), "--decode", e[1].URL(), "--decode", e[3].URL(),
		"--policy", "round_robin", "--retry-max-retries", "2", "--cb-failure-threshold", "2")
	s.ready()
	send := func(method, path, body string) {
		t.Helper()
		client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true, DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, "unix", s.admin)
		}}}
		req, _ := http.NewRequest(method, "http://admin"+path, strings.NewReader(body))
		resp, err := client.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		if resp.StatusCode/100 != 2 {
			t.Fatalf("%s %s: %d", method, path, resp.StatusCode)
		}
	}
	send(http.MethodDelete, "/workers/prefill-0", "")
	send(http.MethodPost, "/workers", fmt.Sprintf(`{"url":%q,"worker_type":"prefill"}`, e[4].URL()))
	send(http.MethodPost, "/workers", fmt.Sprintf(`{"url":%q,"worker_type":"decode"}`, e[5].URL()))
	send(http.MethodPost, "/workers/decode-0/drain", "")
	find := func(all admin.Status, id string) (w admin.WorkerStatus) {
		for _, w := range all.Workers {
			if w.ID == id {
				return w
			}
		}
		return w
	}
	if !eventually(func() bool {
		return find(s.status(), "decode-2").Status == "ready" && find(s.status(), "prefill-2").Status == "ready"
	}) {
		t.Fatalf("workers = %+v", s.status().Workers)
	}
	e[3].Fail(sim.Fault{Kind: sim.FaultStatus, Body: `{"error":{"message":"CUDA error"}}`})
	client := newClient(t)
	if !eventually(func() bool {
		complete(t, client, s.base, "hello", 2)
		return find(s.status(), "decode-1").Breaker == "open"
	}) {
		t.Fatalf("no breaker opens: %+v", s.status().Workers)
	}
	told := func() (lines []string) {
		for _, w := range s.status().Workers {
			if w.Status != "removed" && w.ID != "prefill-0" {
				lines = append(lines, fmt.Sprint(w.ID, " ", w.URL, " ", w.Status, " ", w.Breaker))
			}
		}
		return lines
	}
	sorted := func() string { return strings.Join(slices.Sorted(slices.Values(told())), "\n") }
	before := sorted()
	for range 2 {
		s.upgrade()
		if after := sorted(); after != before {
			t.Errorf("after an upgrade the workers are\n%s\nwant\n%s", after, before)
		}
	}
	client.CloseIdleConnections()
	s.stop()
}

// TestUpgradeKeepsTheIndex: as much of prompts is found after as before, with no
// file to keep it in.
func TestUpgradeKeepsTheIndex(t *testing.T) {
	for _, dialect := range []string{sim.SGLang, sim.VLLMNixl} {
		t.Run(dialect, func(t *testing.T) {
			var flags []string
			var prefill []*sim.Engine
			for range 4 {
				p := startEngine(t, dialect, sim.Prefill, func(c *sim.Config) { c.PrefillPerToken, c.KVTokens = 100*time.Microsecond, 1<<16 })
				prefill = append(prefill, p)
				flags = append(flags, workerFlags(p, startEngine(t, dialect, sim.Decode, nil))...)
			}
			s := startService(t, flags...)
			s.ready()
			client := newClient(t)
			round := func() float64 {
				var hits, all uint64
				count := func(sign int) {
					for _, p := range prefill {
						hits += uint64(sign) * p.Stats().HitTokens
						all += uint64(sign) * (p.Stats().HitTokens + p.Stats().ComputedTokens)
					}
				}
				count(-1)
				for i := range 24 {
					complete(t, client, s.base, prompt(i, 4096), 2)
				}
				count(1)
				return float64(hits) / float64(all)
			}
			round()
			before := round()
			s.upgrade()
			after := round()
			t.Logf("hit ratio %.3f before, %.3f after", before, after)
			if before < 0.8 || after < before*0.95 {
				t.Errorf("the hit ratio is %.3f after, %.3f before", after, before)
			}
			client.CloseIdleConnections()
			s.stop()
		})
	}
}

// TestUpgradeInABurst: a burst of ten times what decode has room for, an upgrade in
// the middle of it, and as many requests more: no engine preempts.
func TestUpgradeInABurst(t *testing.T) {
	for _, dialect := range []string{sim.SGLang, sim.VLLMNixl} {
		t.Run(dialect, func(t *testing.T) {
			k := kvCase{dialect: dialect}
			engine := func(c *sim.Config) {
				c.BlockSize, c.MaxRunning, c.DecodePerToken = 16, kvBurst, kvToken
				if c.Role == sim.Decode {
					c.KVTokens = kvRoom * (kvLength + kvAnswer + 16)
				}
			}
			prefill, decode := startEngine(t, dialect, sim.Prefill, engine), startEngine(t, dialect, sim.Decode, engine)
			s := startService(t, append(workerFlags(prefill, decode), "--load-monitor-interval", "1")...)
			s.ready()
			client := newClient(t)
			const each = kvBurst / 8
			var all sync.WaitGroup
			for i := range each {
				all.Go(func() { k.ask(t, client, s.base, i) })
			}
			if !eventually(func() bool { return decode.Stats().Running >= kvRoom/2 }) {
				t.Fatal("decode is not filled")
			}
			s.upgrade()
			fresh := newClient(t)
			for i := range each {
				all.Go(func() { k.ask(t, fresh, s.base, each+i) })
			}
			all.Wait()
			if n := decode.Stats().Preemptions; n > 0 {
				t.Errorf("decode preempted %d times", n)
			}
			client.CloseIdleConnections()
			fresh.CloseIdleConnections()
			s.stop()
		})
	}
}

// TestUpgradeOfOwnSockets: those that the daemon has opened itself are handed over
// too, unix sockets stay where they are, and what the configuration says of them
// anew holds.
func TestUpgradeOfOwnSockets(t *testing.T) {
	dir := t.TempDir()
	file, metrics := filepath.Join(dir, "c.yaml"), filepath.Join(dir, "metrics")
	write := func(port int) {
		if err := os.WriteFile(file, fmt.Appendf(nil, "health-check-port: %d\n", port), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	ports := []int{freePort(t), freePort(t)}
	write(ports[0])
	s := startService(t, append(workerFlags(startEngine(t, sim.SGLang, sim.Prefill, nil), startEngine(t, sim.SGLang, sim.Decode, nil)),
		"--config", file, "--prometheus-host", "unix:"+metrics, "--host", "127.0.0.1")...)
	s.ready()
	answers := func(network, address string) bool {
		conn, err := net.Dial(network, address)
		if err == nil {
			conn.Close()
		}
		return err == nil
	}
	for _, port := range []int{ports[0], ports[1], ports[1]} {
		write(port)
		s.upgrade()
		for name, there := range map[string]bool{
			"the admin socket": answers("unix", s.admin), "metrics": answers("unix", metrics),
			"probes": answers("tcp", fmt.Sprint("127.0.0.1:", port)), "data": answers("tcp", s.data.Addr().String()),
		} {
			if !there {
				t.Errorf("with probes at %d: nobody answers at %s", port, name)
			}
		}
	}
	if !eventually(func() bool { return !answers("tcp", fmt.Sprint("127.0.0.1:", ports[0])) }) {
		t.Error("somebody answers where the configuration has nobody any more")
	}
	for _, pid := range s.all()[:3] {
		s.wantEnd(pid, 10*time.Second)
	}
	if !answers("unix", s.admin) || !answers("unix", metrics) {
		t.Error("unix sockets have gone with the old process")
	}
	s.stop()
	if _, err := os.Lstat(metrics); err == nil {
		t.Error("the last process has left its socket")
	}
}

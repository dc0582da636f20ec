package enginetest

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"net"
	"net/http"
	"os/exec"
	"strings"
	"testing"
	"time"
)

// socket is the router's admin socket.
func (p *pair) socket() string {
	for i, arg := range p.router.command {
		if arg == "--admin-socket" {
			return p.router.command[i+1]
		}
	}
	return ""
}

// admin asks the router on its admin socket.
func (p *pair) admin(path string, into any) error {
	ctx, stop := context.WithTimeout(context.Background(), 5*time.Second)
	defer stop()
	c := http.Client{Transport: &http.Transport{DisableKeepAlives: true, DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "unix", p.socket())
	}}}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://admin"+path, nil)
	if err != nil {
		return err
	}
	resp, err := c.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	return json.NewDecoder(resp.Body).Decode(into)
}

// phase returns the phase of the one request that runs, or "".
func (p *pair) phase() string {
	var told struct{ Requests []struct{ Phase string } }
	if err := p.admin("/requests", &told); err != nil || len(told.Requests) != 1 {
		return ""
	}
	return told.Requests[0].Phase
}

// figures compares what the router exports with what engines do.
func (s *suite) figures() {
	s.step("our page says of running, KV and hits what engines say", s.samePages)
	s.step("status, explain and watch show it", s.shown)
}

func (s *suite) samePages(t *testing.T) string {
	compared, farthest := 0, 0.0
	compare := func(when string, slack float64) {
		eventually(t, 10*time.Second, func() error {
			n, far, err := s.differences(slack)
			if err == nil {
				compared += n
				farthest = max(farthest, far)
			} else {
				err = fmt.Errorf("%s: %w", when, err)
			}
			return err
		})
	}
	eventually(t, 5*time.Second, s.atRest)
	compare("at rest", 0)
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	for i := range 3 {
		resp, err := s.open(ctx, with(streamed(completion(story(4000+i, 400), 1000)), object{"ignore_eos": true}))
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		if _, err := io.ReadFull(resp.Body, make([]byte, 200)); err != nil {
			t.Fatal(err)
		}
	}
	eventually(t, 5*time.Second, func() error {
		l, err := s.load(s.decode)
		if err == nil && l.running != 3 {
			err = fmt.Errorf("decode runs %v", l.running)
		}
		return err
	})
	// Three requests grow while the pages are read one after the other.
	compare("with three streams", 400)
	stop()
	eventually(t, 5*time.Second, s.atRest)
	compare("at rest again", 0)
	return fmt.Sprintf("%d figures; KV apart by %.0f tokens at most, while it grows", compared, farthest)
}

// differences compares the pages at one moment. KV may differ by slack tokens.
func (p *pair) differences(slack float64) (compared int, far float64, err error) {
	ours, err := scrape(p.metrics)
	if err != nil {
		return 0, 0, err
	}
	for _, e := range []*engine{p.prefill, p.decode} {
		theirs, err := scrape(e.url + "/metrics")
		if err != nil {
			return 0, 0, err
		}
		l, err := p.load(e)
		if err != nil {
			return 0, 0, err
		}
		capacity := ours.sum("pdrouter_worker_kv_capacity_tokens", e.url)
		used, hits := l.used, theirs.sum("sglang:prefill_effective_tokens_total", `mode="device_hit"`)
		wantCapacity := theirs.sum("sglang:max_total_num_tokens")
		if p.dialect == "vllm" {
			used, hits = l.used*capacity, theirs.sum("vllm:prefix_cache_hits_total")
			wantCapacity = capacity
		}
		for name, want := range map[string]float64{
			"pdrouter_worker_engine_running_requests": l.running, "pdrouter_worker_engine_waiting_requests": l.waiting,
			"pdrouter_worker_prefix_cache_hits_total": hits, "pdrouter_worker_kv_capacity_tokens": wantCapacity,
		} {
			if got := ours.sum(name, e.url); got != want {
				return 0, 0, fmt.Errorf("%s of %s is %v, the engine says %v", name, e.role, got, want)
			}
			compared++
		}
		got := ours.sum("pdrouter_worker_kv_used_tokens", e.url)
		if math.IsNaN(got) || math.Abs(got-used) > slack+0.5 {
			return 0, 0, fmt.Errorf("KV used of %s is %v tokens, the engine says %v", e.role, got, used)
		}
		compared, far = compared+1, max(far, math.Abs(got-used))
	}
	return compared, far, nil
}

// shown has the three commands tell of a request.
func (s *suite) shown(t *testing.T) string {
	ours := func(args ...string) (string, error) {
		ctx, stop := context.WithTimeout(t.Context(), 30*time.Second)
		defer stop()
		out, err := exec.CommandContext(ctx, *router, append(args, "--admin-socket", s.socket())...).CombinedOutput()
		return string(out), err
	}
	watched := make(chan string, 1)
	go func() {
		out, err := ours("watch", "-n", "1")
		watched <- fmt.Sprintf("%s %v", out, err)
	}()
	// Watch says nothing before a request comes, so they come until it has
	// seen one.
	var seen string
	eventually(t, 30*time.Second, func() error {
		say(t, s.ask(completions, streamed(completion(story(5000, 100), 40))))
		select {
		case seen = <-watched:
			return nil
		default:
			return fmt.Errorf("watch has not seen a request")
		}
	})
	texts := map[string]string{"watch": seen}
	for _, command := range []string{"status", "explain"} {
		out, err := ours(command)
		if err != nil {
			t.Errorf("%s: %v", command, err)
		}
		texts[command] = out
	}
	for command, words := range map[string][]string{
		"watch": {"prefill-0 -> decode-0", "prefilled", "first token"}, "explain": {"on prefill-0", "hand-off", "from decode-0"}, "status": {"prefill-0  ready", "decode-0   ready"},
	} {
		for _, word := range words {
			if !strings.Contains(texts[command], word) {
				t.Errorf("%s does not say %q:\n%s", command, word, texts[command])
			}
		}
	}
	return "each names the pair and the phases"
}

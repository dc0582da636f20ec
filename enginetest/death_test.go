package enginetest

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"
)

// deaths kills engines as a host that fails would. Each costs a start of an
// engine, so one alone is part of the brief run.
func (s *suite) deaths() {
	if s.dialect == "vllm" || *full || !s.real {
		s.step("decode killed mid-stream: true error in 1 s, then restarted", s.decodeDies)
	}
	if s.dialect == "sglang" || *full || !s.real {
		s.step("prefill killed in prefill: true error in 1 s, then restarted", s.prefillDies)
	}
	if *full || !s.real {
		s.step("prefill killed before: true error in 1 s, then restarted", s.prefillIsDead)
		s.step("prefill killed after the hand-off: the stream goes on", s.prefillNoMore)
	}
	if *full && s.dialect == "vllm" {
		s.step("decode that recomputes is found out", s.recomputes)
	}
}

// soon is how long a client may wait for its error. Before sim, which runs
// beside other tests, it is not about time.
func (p *pair) soon() time.Duration {
	if p.real {
		return time.Second
	}
	return 5 * time.Second
}

func (s *suite) decodeDies(t *testing.T) string {
	resp, err := s.open(t.Context(), with(streamed(completion(story(6000, 200), 1000)), object{"ignore_eos": true}))
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if _, err := io.ReadFull(resp.Body, make([]byte, 300)); err != nil {
		t.Fatal(err)
	}
	s.decode.kill()
	killed := time.Now()
	rest, err := io.ReadAll(resp.Body)
	took := time.Since(killed)
	if err != nil || took > s.soon() || strings.Contains(string(rest), "[DONE]") || !strings.Contains(string(rest), `"error"`) {
		t.Errorf("after %v: %v %s, want an error event within 1 s and no [DONE]", took, err, last(string(rest), 400))
	}
	eventually(t, 5*time.Second, func() error { return s.idle(s.prefill) })
	return fmt.Sprintf("error after %.0f ms; %s", took.Seconds()*1e3, s.again(t, s.decode))
}

func last(text string, n int) string { return text[max(0, len(text)-n):] }

// again restarts an engine, and wants the first request to work.
func (s *suite) again(t *testing.T, e *engine) string {
	t.Helper()
	up := e.up(t, s.patience)
	ready := eventually(t, 20*time.Second, s.router.well)
	body := completion("The capital of France is", 8)
	first := s.ask(completions, body)
	got, err := read(first)
	if err != nil {
		t.Errorf("the first request after the restart: %v", err)
	} else if want := s.alone(t, completions, body); got.texts[0] != want[0] {
		t.Errorf("the first request after the restart: %q, want %q", got.texts, want)
	}
	eventually(t, 5*time.Second, s.atRest)
	return fmt.Sprintf("up in %.0f s, ready %.1f s later, first answer in %.2f s", up.Seconds(), ready.Seconds(), first.took.Seconds())
}

// failing sends a request, does something to an engine once it is in a phase,
// and wants a true error within a second of it.
func (s *suite) failing(t *testing.T, body object, phase string, do func()) string {
	t.Helper()
	answered := make(chan reply, 1)
	go func() { answered <- s.ask(completions, body) }()
	eventually(t, 10*time.Second, func() error {
		if now := s.phase(); now != phase {
			return fmt.Errorf("it is in %q, want %s", now, phase)
		}
		return nil
	})
	do()
	killed := time.Now()
	r := <-answered
	took := time.Since(killed)
	if r.err != nil || r.status < 500 || took > s.soon() || !strings.Contains(r.body, `"error"`) {
		t.Errorf("%v after the kill: %v, want a true error within 1 s", took, r)
	}
	return fmt.Sprintf("%d after %.0f ms", r.status, took.Seconds()*1e3)
}

func (s *suite) prefillDies(t *testing.T) string {
	figures := s.failing(t, completion(story(6100, 1500), 8), "prefill", s.prefill.kill)
	return fmt.Sprintf("%s; %s; %s", figures, s.survives(t), s.again(t, s.prefill))
}

func (s *suite) prefillIsDead(t *testing.T) string {
	s.prefill.kill()
	r := s.ask(completions, completion(story(6200, 50), 4))
	if r.err != nil || r.status < 500 || r.took > s.soon() {
		t.Errorf("%v, want a true error within 1 s", r)
	}
	return fmt.Sprintf("%d after %.0f ms; %s; %s", r.status, r.took.Seconds()*1e3, s.survives(t), s.again(t, s.prefill))
}

// survives wants decode to have dropped the requests of a prefill that died
// within 5 s. The KV of those that it aborted while they came over SGLang keeps
// until prefill says that it writes no more, which a dead one does not: it lets
// go after 30 s by itself.
func (s *suite) survives(t *testing.T) string {
	t.Helper()
	var kept float64
	took := eventually(t, 5*time.Second, func() error {
		l, err := s.load(s.decode)
		if err == nil && l.running+l.waiting+l.moving > 0 {
			err = fmt.Errorf("decode has %+v", l)
		}
		kept = l.used
		return err
	})
	limit := 5 * time.Second
	if s.real && s.dialect == "sglang" {
		limit = 40 * time.Second
	}
	freed := eventually(t, limit, func() error { return s.idle(s.decode) })
	if kept == 0 {
		return fmt.Sprintf("decode at rest %.1f s later", took.Seconds())
	}
	return fmt.Sprintf("decode without requests %.1f s later, %.0f tokens of KV free after %.0f s more", took.Seconds(), kept, freed.Seconds())
}

// prefillNoMore: decode has all it needs, so nobody is hurt.
func (s *suite) prefillNoMore(t *testing.T) string {
	body := with(completion(story(6300, 200), 60), object{"ignore_eos": true})
	want := s.alone(t, completions, body)
	resp, err := s.open(t.Context(), streamed(body))
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	head := make([]byte, 300)
	if _, err := io.ReadFull(resp.Body, head); err != nil {
		t.Fatal(err)
	}
	s.prefill.kill()
	rest, err := io.ReadAll(resp.Body)
	got, wrong := read(reply{status: http.StatusOK, body: string(head) + string(rest), err: err})
	if wrong != nil || got.texts[0] != want[0] {
		t.Errorf("%q, want %q: %v", got.texts, want, wrong)
	}
	return s.again(t, s.prefill)
}

// recomputes runs decode with kv_load_failure_policy recompute, and kills
// prefill between its answer and decode's leg, which a gate between router and
// decode holds back for it.
func (s *suite) recomputes(t *testing.T) string {
	s.decode.kill()
	s.decode.env = []string{"POLICY=recompute"}
	s.again(t, s.decode)
	g := newGate(t, s.decode.url)
	through := *s.pair
	through.decode = &engine{s.decode.process, "decode", g.url, "/health"}
	through.newRouter(t)
	through.router.name += "-gate"
	t.Cleanup(through.router.kill)
	through.router.up(t, 20*time.Second)
	recomputed := func() float64 {
		ours, err := scrape(through.metrics)
		if err != nil {
			t.Fatal(err)
		}
		return ours.sum("pdrouter_worker_recomputed_tokens_total")
	}
	before := recomputed()
	held := g.hold()
	answered := make(chan reply, 1)
	go func() { answered <- through.ask(completions, completion(story(6400, 200), 8)) }()
	ctx, stop := context.WithTimeout(t.Context(), 30*time.Second)
	defer stop()
	select {
	case <-held:
	case <-ctx.Done():
		t.Fatal("decode's leg has not come")
	}
	s.prefill.kill()
	g.release()
	a := say(t, <-answered)
	eventually(t, 10*time.Second, func() error {
		if n := recomputed() - before; n < float64(a.prompt)/2 {
			return fmt.Errorf("the router counts %v tokens recomputed, of %d", n, a.prompt)
		}
		return nil
	})
	n := recomputed() - before
	return fmt.Sprintf("%v tokens of %d counted as recomputed; %s", n, a.prompt, s.again(t, s.prefill))
}

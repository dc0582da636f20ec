package enginetest

import (
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// crowd has 16 clients ask 200 times. The prompts are few enough to be asked
// one by one first: what a request is answered in the crowd must be what it is
// answered alone.
func (s *suite) crowd() {
	s.step("200 requests of 16 clients are all right", func(t *testing.T) string {
		const clients, requests, kinds = 16, 200, 25
		bodies, want := make([]object, kinds), make([]answer, kinds)
		lengths := rand.New(rand.NewPCG(9, 9))
		for i := range bodies {
			bodies[i] = completion(story(2000+i, 1+lengths.IntN(40)*(i%5)), 2+i%4)
			if s.real {
				want[i] = say(t, s.ask(completions, bodies[i]))
			} else {
				want[i].texts = s.alone(t, completions, bodies[i])
			}
		}
		first := s.settled(t)
		began := time.Now()
		var next, wrong atomic.Int64
		var mu sync.Mutex
		others := map[int][]string{} // by prompt: texts that differ
		var all sync.WaitGroup
		for range clients {
			all.Go(func() {
				for i := next.Add(1) - 1; i < requests; i = next.Add(1) - 1 {
					n := int(i) % kinds
					body := bodies[n]
					if i%2 == 1 {
						body = streamed(body)
					}
					got, err := read(s.ask(completions, body))
					switch {
					case err != nil || len(got.texts) != 1:
						wrong.Add(1)
						t.Errorf("request %d: %q: %v", i, got.texts, err)
					case got.texts[0] != want[n].texts[0]:
						mu.Lock()
						others[n] = append(others[n], got.texts[0])
						mu.Unlock()
					}
				}
			})
		}
		all.Wait()
		took := time.Since(began).Seconds()
		last := s.settled(t)
		ties, widest := s.ties(t, bodies, want, others)
		if n := last.handoffs - first.handoffs; n != requests {
			t.Errorf("the router counts %v hand-offs", n)
		}
		if last.computed != first.computed || last.recomputed != first.recomputed {
			t.Errorf("decode computed %v tokens", last.computed-first.computed)
		}
		eventually(t, 5*time.Second, s.atRest)
		return fmt.Sprintf("%d failed, %d ties (at most %.3f apart), %.1f requests/s, %.1f MB came over", wrong.Load(), ties, widest, requests/took, last.megabytes-first.megabytes)
	})
}

// ties wants each text that was another in the crowd to be one of two between
// which the engine hardly decides. Only SGLang, in bfloat16, has such.
func (s *suite) ties(t *testing.T, bodies []object, want []answer, others map[int][]string) (n int, widest float64) {
	t.Helper()
	for i, texts := range others {
		for _, text := range slices.Compact(slices.Sorted(slices.Values(texts))) {
			gap, err := 0.0, fmt.Errorf("%s has no ties", s.name)
			if s.real && s.dialect == "sglang" {
				gap, err = s.tie(bodies[i], text)
			}
			if err != nil {
				t.Errorf("prompt %d in the crowd: %q, alone %q: %v", i, text, want[i].texts, err)
			}
			widest = max(widest, gap)
		}
		n += len(texts)
	}
	return n, widest
}

// departures has clients leave at all moments.
func (s *suite) departures() {
	s.step("client leaves in prefill: at rest within 5 s", func(t *testing.T) string {
		return s.leave(t, story(3000, 1500), "prefill")
	})
	s.step("client leaves in the hand-off: at rest within 5 s", func(t *testing.T) string {
		return s.leave(t, story(3001, map[string]int{"vllm": 1400, "sglang": 100}[s.dialect]), "hand-off")
	})
	s.step("client leaves mid-stream: at rest within 5 s", s.midStream)
}

// leave has a client leave in a phase. A phase may be over before it is seen;
// then the next client tries.
func (s *suite) leave(t *testing.T, prompt, phase string) string {
	t.Helper()
	const tries = 15
	for try := range tries {
		ctx, stop := context.WithCancel(t.Context())
		gone := make(chan reply, 1)
		body := streamed(completion(fmt.Sprint(try, " ", prompt), 400))
		go func() { gone <- postUntil(ctx, s.router.url, completions, body) }()
		seen := s.await(phase, gone)
		stop()
		if r := <-gone; seen == phase && r.err != nil {
			return s.restful(t)
		}
		eventually(t, 40*time.Second, s.atRest)
	}
	if s.dialect == "vllm" {
		t.Errorf("none of %d clients was seen in %s", tries, phase)
	}
	// SGLang's prefill answers in the same hundredth of a second as decode.
	return fmt.Sprintf("%d clients left as the first token came; %s", tries, s.restful(t))
}

// await waits until the one request that runs is in a phase, or beyond it, or
// has ended, and returns the phase. It waits for the midst of prefill: an engine
// that has only just been asked is another case.
func (s *suite) await(phase string, ended <-chan reply) (seen string) {
	for seen != phase && seen != "relay" && len(ended) == 0 {
		seen = s.phase()
	}
	if phase == "prefill" {
		midst := time.NewTimer(map[bool]time.Duration{true: 500 * time.Millisecond, false: 50 * time.Millisecond}[s.real])
		defer midst.Stop()
		<-midst.C
		seen = s.phase()
	}
	return seen
}

// restful waits until all is at rest, and says how long it took and by what.
func (s *suite) restful(t *testing.T) string {
	t.Helper()
	took := eventually(t, 5*time.Second, s.atRest)
	figures := fmt.Sprintf("at rest after %.2f s", took.Seconds())
	if s.dialect == "vllm" {
		m, err := scrape(s.prefill.url + "/metrics")
		if n := m.sum("vllm:nixl_num_kv_expired_reqs_total"); err != nil || n > 0 {
			t.Errorf("%v hand-offs were left to their lease: %v", n, err)
		}
		figures += ", 0 hand-offs left to the engine's lease"
	}
	say(t, s.ask(completions, completion("The capital of France is", 3)))
	eventually(t, 5*time.Second, s.atRest)
	return figures
}

func (s *suite) midStream(t *testing.T) string {
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	resp, err := s.open(ctx, streamed(completion(story(3002, 300), 600)))
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if _, err := io.ReadFull(resp.Body, make([]byte, 300)); err != nil {
		t.Fatal(err)
	}
	stop()
	return s.restful(t)
}

// open sends a request to the router whose answer is to be read as it comes.
func (s *suite) open(ctx context.Context, body object) (*http.Response, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, s.router.url+completions, jsonReader(body))
	if err != nil {
		return nil, err
	}
	req.Header.Set("Content-Type", "application/json")
	return client.Do(req)
}

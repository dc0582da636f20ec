package main

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"sync"
	"testing"
	"time"

	"pdrouter/sim"
)

// post sends a body, as from a client that keeps its connections, and returns
// the answer.
func post(t *testing.T, client *http.Client, url, body string) (status int, answer string) {
	t.Helper()
	resp, err := client.Post(url, "application/json", bytes.NewReader([]byte(body)))
	if err != nil {
		t.Errorf("post %s: %v", url, err)
		return 0, ""
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Errorf("post %s: %v", url, err)
	}
	return resp.StatusCode, string(b)
}

// complete asks for a completion and wants the right text.
func complete(t *testing.T, client *http.Client, base, prompt string, tokens int) {
	t.Helper()
	body := jsonOf(t, map[string]any{"model": "sim-model", "prompt": prompt, "max_tokens": tokens, "ignore_eos": true})
	status, answer := post(t, client, base+"/v1/completions", body)
	texts, err := parseAnswer("/v1/completions", answer)
	if want := expectAll(t, "/v1/completions", body); status != 200 || err != nil || len(texts) != 1 || texts[0] != want[0] {
		t.Errorf("completion = %d %s, want 200 and %q", status, answer, want)
	}
}

// shares returns how many requests each engine has had.
func shares(engines []*sim.Engine) []int {
	n := make([]int, len(engines))
	for i, e := range engines {
		n[i] = int(e.Stats().TotalRequests)
	}
	return n
}

// computes makes an engine take a time for its prompts. If it took none, it
// would not matter to cache_aware where a prompt goes.
func computes(c *sim.Config) { c.PrefillPerToken = 20 * time.Microsecond }

// A hundred requests that arrive at one time spread as if they had come one by
// one, though none has answered yet when the last one is placed: with
// prefix_hash no worker gets more than its load bound, 1.25 times the average,
// and with cache_aware, which weighs seconds, there is little more to gain.
func TestBurstSpreads(t *testing.T) {
	const burst = 100
	system := prompt(0, 4096)
	for _, tt := range []struct {
		name    string
		policy  string
		prompt  func(i int) string
		dialect string
		most    int
	}{
		{"prompts with blocks to find again, sglang", "prefix_hash", func(i int) string { return prompt(i, 2048) }, sim.SGLang, 64},
		{"prompts with blocks to find again, vllm-nixl", "prefix_hash", func(i int) string { return prompt(i, 2048) }, sim.VLLMNixl, 64},
		{"prompts that all begin alike, sglang", "prefix_hash", func(i int) string { return system + prompt(i, 500) }, sim.SGLang, 64},
		{"prompts shorter than a block, sglang", "prefix_hash", func(i int) string { return prompt(i, 100) }, sim.SGLang, 51},
		{"prompts with blocks to find again, cache_aware", "cache_aware", func(i int) string { return prompt(i, 2048) }, sim.SGLang, 64},
		{"prompts that all begin alike, cache_aware", "cache_aware", func(i int) string { return system + prompt(i, 500) }, sim.VLLMNixl, 64},
	} {
		t.Run(tt.name, func(t *testing.T) {
			f := newFleet(t, fleetPlan{dialect: tt.dialect, engine: func(c *sim.Config) {
				c.MaxRunning = burst
				c.KVTokens = 1 << 18
				c.DecodePerToken = 125 * time.Millisecond // so that none ends before the last has come
				if tt.policy == "cache_aware" {
					computes(c)
				}
			}, config: func(c *Config) {
				c.Policy, c.Choosing.BalanceBelow = tt.policy, 0
			}})
			client := newClient(t)
			var wg sync.WaitGroup
			for i := range burst {
				wg.Go(func() { complete(t, client, f.base, tt.prompt(i), 8) })
			}
			wg.Wait()
			for role, engines := range map[string][]*sim.Engine{"prefill": f.prefill, "decode": f.decode} {
				got := shares(engines)
				// The bound holds at each moment. Legs that end before the last one
				// has come leave room, so the sum may be off by some.
				const slack = 12
				if got[0]+got[1] != burst || max(got[0], got[1]) > tt.most+slack {
					t.Errorf("%s engines had %v requests, want %d in all and at most %d each", role, got, burst, tt.most+slack)
				}
			}
		})
	}
}

// The same prompt goes where its blocks are, and is found there from the second
// time on; different ones spread.
func TestSamePromptSamePair(t *testing.T) {
	const times, size = 20, 4096
	for _, dialect := range []string{sim.SGLang, sim.VLLMNixl} {
		t.Run(dialect, func(t *testing.T) {
			// So much that a host with other things to do is no slower still.
			slow := func(c *sim.Config) { c.PrefillPerToken = 200 * time.Microsecond }
			f := newFleet(t, fleetPlan{dialect: dialect, engine: slow})
			client := newClient(t)
			for range times {
				complete(t, client, f.base, prompt(7, size), 4)
			}
			for role, engines := range map[string][]*sim.Engine{"prefill": f.prefill, "decode": f.decode} {
				if got := shares(engines); max(got[0], got[1]) != times || min(got[0], got[1]) != 0 {
					t.Errorf("%s engines had %v requests, want all on one", role, got)
				}
			}
			one := f.prefill[0].Stats()
			if one.TotalRequests == 0 {
				one = f.prefill[1].Stats()
			}
			// The last block is computed anew: its end is what the answer comes from.
			found := uint64(size/4-1) / 128 * 128
			if one.HitTokens != (times-1)*found {
				t.Errorf("%d tokens were found in the prefix cache, want %d in each but the first", one.HitTokens, found)
			}
		})
	}
}

func TestDifferentPromptsSpread(t *testing.T) {
	for _, dialect := range []string{sim.SGLang, sim.VLLMNixl} {
		t.Run(dialect, func(t *testing.T) {
			f := newFleet(t, fleetPlan{dialect: dialect, engine: computes})
			client := newClient(t)
			for i := range 30 {
				complete(t, client, f.base, prompt(i, 2048), 2)
			}
			// By chance alone fewer than four of thirty are one in a hundred thousand.
			for role, engines := range map[string][]*sim.Engine{"prefill": f.prefill, "decode": f.decode} {
				if got := shares(engines); min(got[0], got[1]) < 4 {
					t.Errorf("%s engines had %s requests", role, fmt.Sprint(got))
				}
			}
		})
	}
}

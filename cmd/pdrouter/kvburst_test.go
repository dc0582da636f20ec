package main

import (
	"sync"
	"testing"
	"time"

	"pdrouter/sim"
)

// A burst of ten times as many requests as the decode engines' KV caches hold
// waits in the router: none fails, and no engine preempts.
func TestBurstWaitsForSpace(t *testing.T) {
	const (
		burst  = 400
		length = 200 // of a prompt, in tokens
		answer = 200
		room   = 20 // requests for which an engine has space
		token  = 2 * time.Millisecond
	)
	for _, tt := range []struct {
		name     string
		dialect  string
		interval time.Duration // between two reports
	}{
		{"sglang", sim.SGLang, 200 * time.Millisecond},
		{"vllm-nixl", sim.VLLMNixl, 200 * time.Millisecond},
		{"sglang, of which little is known", sim.SGLang, time.Second},
	} {
		t.Run(tt.name, func(t *testing.T) {
			f := newFleet(t, fleetPlan{
				dialect: tt.dialect,
				engine: func(c *sim.Config) {
					c.BlockSize, c.MaxRunning, c.DecodePerToken = 16, burst, token
					if c.Role == sim.Decode {
						c.KVTokens = room * (length + answer + 16)
					}
				},
				config: func(c *Config) { c.Workers.LoadInterval = tt.interval },
			})
			if !eventually(func() bool {
				for _, s := range f.registry.Statuses() {
					if s.Report.At.IsZero() {
						return false
					}
				}
				return true
			}) {
				t.Fatal("engines do not report")
			}
			client := newClient(t)
			began := time.Now()
			var all sync.WaitGroup
			for i := range burst {
				all.Go(func() { complete(t, client, f.base, prompt(i, 4*length), answer) })
			}
			all.Wait()
			took := time.Since(began)
			ideal := burst / (2 * room) * answer * token
			t.Logf("it took %v, %.2f times the least", took.Round(time.Millisecond), float64(took)/float64(ideal))
			for _, e := range f.decode {
				if n := e.Stats().Preemptions; n > 0 {
					t.Errorf("%s preempted %d times", e.URL(), n)
				}
			}
		})
	}
}

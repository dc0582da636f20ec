package main

import (
	"slices"
	"testing"
	"time"

	"pdrouter/sim"
)

// An engine that is started again holds no blocks: nothing that was known of
// the old process's cache is believed of the new one, though it is the same
// worker. It is the half of BUG-071 that is about the index.
func TestRestartedEngineHoldsNothing(t *testing.T) {
	for _, dialect := range []string{sim.SGLang, sim.VLLMNixl} {
		t.Run(dialect, func(t *testing.T) {
			t.Parallel()
			prefill := []*engineProcess{startProcess(t, dialect, sim.Prefill), startProcess(t, dialect, sim.Prefill)}
			f := newProcessFleet(t, nil, prefill, []*engineProcess{startProcess(t, dialect, sim.Decode)})
			held := func(e *engineProcess) float64 {
				return scrape(t, f.scrape.Addr().String()).sum("pdrouter_policy_index_blocks", `worker="`+e.url+`"`)
			}
			// An engine that is younger than its reports are apart cannot be told
			// from the next, see TestKilledDecode.
			client, began := newClient(t), time.Now()
			if !eventually(func() bool {
				for i := range 8 {
					complete(t, client, f.base, prompt(i, 4096), 2)
				}
				return time.Since(began) > 2500*time.Millisecond && held(prefill[0]) > 0 && held(prefill[1]) > 0
			}) {
				t.Fatal("nothing is believed to be held")
			}
			prefill[0].kill()
			prefill[0].start()
			if !eventually(func() bool { return held(prefill[0]) == 0 }) {
				t.Errorf("%v blocks are believed to be held by an engine that was started again", held(prefill[0]))
			}
			if held(prefill[1]) == 0 {
				t.Error("nothing is believed any more of the other one either")
			}
		})
	}
}

// BUG-058: the worker that holds a prompt's blocks refuses connections. Whoever
// asks is answered by the other one, at once.
func TestBlocksOnADeadWorker(t *testing.T) {
	for _, dialect := range []string{sim.SGLang, sim.VLLMNixl} {
		t.Run(dialect, func(t *testing.T) {
			t.Parallel()
			prefill := []*engineProcess{startProcess(t, dialect, sim.Prefill), startProcess(t, dialect, sim.Prefill)}
			f := newProcessFleet(t, nil, prefill, []*engineProcess{startProcess(t, dialect, sim.Decode)})
			client := newClient(t)
			for range 3 {
				complete(t, client, f.base, prompt(7, 4096), 2)
			}
			at := slices.IndexFunc(prefill, func(e *engineProcess) bool { return f.scraped(t).legs(e.url, "ok") == 3 })
			if at < 0 {
				t.Fatal("the same prompt did not go to one worker")
			}
			prefill[at].kill()
			for i := range 3 {
				began := time.Now()
				complete(t, client, f.base, prompt(7, 4096), 2)
				if took := time.Since(began); took > time.Second {
					t.Errorf("request %d was answered after %v", i, took)
				}
			}
			if n := f.scraped(t).legs(prefill[1-at].url, "ok"); n != 3 {
				t.Errorf("the other one has had %d legs, want 3", n)
			}
		})
	}
}

package main

import (
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

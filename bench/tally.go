package bench

import (
	"fmt"
	"sync"
)

// maxFaults is how many failures a Tally remembers in words.
const maxFaults = 10

// A Tally counts results while they come. The zero value is empty.
type Tally struct {
	mu     sync.Mutex
	totals Totals
}

// Totals are what a Tally has counted.
type Totals struct {
	Sent, Done, Failed int // Failed is part of Done
	Faults             []string

	PromptTokens, CachedTokens, Tokens int // of the answers whose usage told

	TTFT, ITL, Lag Spread
}

// Open returns how many requests are being answered.
func (t *Totals) Open() int { return t.Sent - t.Done }

// Totals returns what was counted until now.
func (t *Tally) Totals() Totals {
	t.mu.Lock()
	defer t.mu.Unlock()
	totals := t.totals
	totals.Faults = append([]string(nil), totals.Faults...)
	return totals
}

func (t *Tally) sent() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.totals.Sent++
}

// ended counts the result of request i.
func (t *Tally) ended(i int, res Result) {
	t.mu.Lock()
	defer t.mu.Unlock()
	n := &t.totals
	n.Done++
	n.Lag.Add(res.Lag)
	if res.Err != nil {
		n.Failed++
		if len(n.Faults) < maxFaults {
			n.Faults = append(n.Faults, fmt.Sprintf("request %d of the trace: %v", i+1, res.Err))
		}
		return
	}
	n.TTFT.Add(res.TTFT)
	for _, gap := range res.Gaps {
		n.ITL.Add(gap)
	}
	n.PromptTokens += max(res.PromptTokens, 0)
	n.CachedTokens += max(res.CachedTokens, 0)
	n.Tokens += max(res.Tokens, 0)
}

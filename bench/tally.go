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

	PromptTokens, Tokens int // of the answers whose usage told

	// Told are the answers that said how many tokens of their prompt were
	// cached, and ToldTokens those of their prompts.
	Told, ToldTokens, CachedTokens int

	// Whole are those of them that had all of it cached. A decode engine of
	// vLLM says so of each prompt: it counts what prefill handed over.
	Whole int

	TTFT, ITL, Lag Spread
}

// Open returns how many requests are being answered.
func (t *Totals) Open() int { return t.Sent - t.Done }

// Row returns the totals as figures. Which worker a request went to is not seen
// by a client. If each answer says that all of its prompt was cached, what
// prefill found is not known.
func (t *Totals) Row(name string) Row {
	row := unknown(name)
	row.Requests, row.Failed = t.Done, t.Failed
	if t.ToldTokens > 0 && t.Whole < t.Told {
		row.HitRatio = float64(t.CachedTokens) / float64(t.ToldTokens)
	}
	if t.TTFT.Count() > 0 {
		at := func(q float64) float64 { return t.TTFT.Quantile(q).Seconds() }
		row.TTFTMean = t.TTFT.Mean().Seconds()
		row.TTFTP50, row.TTFTP90, row.TTFTP99, row.TTFTMax = at(0.5), at(0.9), at(0.99), at(1)
	}
	return row
}

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
	if res.Text != "" {
		n.TTFT.Add(res.TTFT)
	}
	for _, gap := range res.Gaps {
		n.ITL.Add(gap)
	}
	n.PromptTokens += max(res.PromptTokens, 0)
	if res.PromptTokens >= 0 && res.CachedTokens >= 0 {
		n.Told++
		n.ToldTokens += res.PromptTokens
		n.CachedTokens += res.CachedTokens
		if res.CachedTokens >= res.PromptTokens-1 { // the last token is always computed
			n.Whole++
		}
	}
	n.Tokens += max(res.Tokens, 0)
}

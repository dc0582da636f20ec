package main

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"time"

	"pdrouter/bench"
	"pdrouter/sim"

	"golang.org/x/sync/errgroup"
)

// look is how often the engines are looked at while a request is watched, and
// settle how long their KV may take to be free when it has ended.
const (
	look   = 5 * time.Millisecond
	settle = 2 * time.Second
)

// A watch follows one request through the engines.
type watch struct {
	*demo
	began time.Time

	mu     sync.Mutex
	text   strings.Builder
	tokens int
	now    []sim.Stats
	seen   []bool // engines that have had KV blocks in use
	peak   []int  // most blocks in use
}

// watchOne shows one request from its sending to the freeing of its blocks.
func (d *demo) watchOne(ctx context.Context) (watchedFacts, error) {
	d.screen.title("1. One request, watched")
	d.screen.say("   A prompt of %s tokens, an answer of %s. The client hears nothing until",
		thousands(d.plan.longPrompt), thousands(d.plan.longAnswer))
	d.screen.say("   prefill has computed all of the prompt. Then the blocks of its KV cache, the")
	d.screen.say("   scratchpad of the work, go over to decode, which streams the answer.")
	d.screen.say("")
	n := len(d.fleet.engines)
	w := &watch{demo: d, now: d.fleet.stats(), seen: make([]bool, n), peak: make([]int, n)}
	rows := []row{w.answerRow}
	for i := range d.fleet.engines {
		rows = append(rows, func(width int) string { return w.engineRow(i, width) })
	}
	stop := d.screen.move(rows...)
	res, left := w.follow(ctx)
	stop(false)
	return w.facts(ctx, res, left)
}

const watchedID = "demo-watched"

// follow sends the request and looks at the engines until it has ended and its
// blocks are free. It returns how many are not.
func (w *watch) follow(ctx context.Context) (res bench.Result, left int) {
	var looking errgroup.Group
	ended := make(chan struct{})
	w.began = time.Now()
	w.event("sent", -1)
	looking.Go(func() error {
		left = w.lookOn(ended)
		return nil
	})
	res = w.fleet.client.Complete(ctx, bench.Ask{
		ID: watchedID, Prompt: bench.Text(1, w.plan.longPrompt), Tokens: w.plan.longAnswer, Token: w.heard,
	})
	close(ended)
	_ = looking.Wait() // it has no error
	return res, left
}

// lookOn looks at the engines until ended is closed and nothing is in use any
// more, but not for ever, and returns how many blocks still are.
func (w *watch) lookOn(ended <-chan struct{}) (left int) {
	tick := time.NewTicker(look)
	defer tick.Stop()
	var end time.Time
	for range tick.C {
		left = w.lookOnce()
		select {
		case <-ended:
			if end.IsZero() {
				end = time.Now()
			}
			if left == 0 || time.Since(end) > settle {
				return left
			}
		default:
		}
	}
	return left
}

// lookOnce looks at the engines, tells what has changed, and returns how many
// blocks are in use on all of them.
func (w *watch) lookOnce() (used int) {
	now := w.fleet.stats()
	w.mu.Lock()
	before := w.now
	w.now = now
	w.mu.Unlock()
	for i, st := range now {
		used += st.UsedBlocks
		w.peak[i] = max(w.peak[i], st.UsedBlocks)
		e := w.fleet.engines[i]
		switch {
		case st.UsedBlocks > 0 && !w.seen[i]:
			w.seen[i] = true
			w.event(map[string]string{
				sim.Prefill: e.id + " computes", sim.Decode: e.id + " sets blocks aside",
			}[e.role], i)
		case st.UsedBlocks == 0 && before[i].UsedBlocks > 0:
			w.event(map[string]string{
				sim.Prefill: e.id + " has handed over", sim.Decode: e.id + " is done",
			}[e.role], i)
		}
	}
	return used
}

// heard is told each token of the answer.
func (w *watch) heard(token string) {
	w.mu.Lock()
	w.text.WriteString(token)
	w.tokens++
	nth := w.tokens
	w.mu.Unlock()
	switch nth {
	case 1:
		w.event("first token", -1)
	case w.plan.longAnswer:
		w.event("last token", -1)
	}
}

// event says that something has happened, on an engine if i is not -1.
func (w *watch) event(what string, i int) {
	at := w.onClock(time.Since(w.began))
	if i < 0 {
		w.screen.say("   %6.1f s  %s", at.Seconds(), what)
		return
	}
	w.mu.Lock()
	st := w.now[i]
	w.mu.Unlock()
	w.screen.say("   %6.1f s  %-26s %s %5s of %s blocks", at.Seconds(), what, w.kvBar(st, 16), thousands(st.UsedBlocks), thousands(st.TotalBlocks))
}

// answerRow is the end of the answer so far.
func (w *watch) answerRow(width int) string {
	w.mu.Lock()
	text, tokens := w.text.String(), w.tokens
	w.mu.Unlock()
	if tokens == 0 {
		return fmt.Sprintf("   answer     %s", w.screen.paint(dim, "silence ..."))
	}
	head := fmt.Sprintf("   answer     %4d tokens ...", tokens)
	return head + w.screen.paint(cyan, tail(text, width-len(head)-1))
}

// engineRow is the KV cache of an engine.
func (w *watch) engineRow(i, width int) string {
	w.mu.Lock()
	st := w.now[i]
	w.mu.Unlock()
	text := fmt.Sprintf(" %6s blocks", thousands(st.UsedBlocks))
	return fmt.Sprintf("   %-10s %s%s", w.fleet.engines[i].id, w.kvBar(st, width-len(text)-16), text)
}

// facts says where the request went, and returns what there is to know of it.
func (w *watch) facts(ctx context.Context, res bench.Result, left int) (watchedFacts, error) {
	facts := watchedFacts{
		PromptTokens: res.PromptTokens, Tokens: res.Tokens, BlocksLeft: left,
		TTFT: w.onClock(res.TTFT).Seconds(), Duration: w.onClock(res.Duration).Seconds(),
	}
	if err := ctx.Err(); err != nil {
		return facts, err
	}
	if res.Err != nil {
		facts.Failed = res.Err.Error()
		w.screen.say("   %s", w.screen.paint(red, "It failed: "+facts.Failed))
		return facts, nil
	}
	p, err := w.fleet.access.take(watchedID)
	if err != nil {
		return facts, err
	}
	facts.Prefill, facts.Decode, facts.Room = p.Prefill, p.Decode, p.Room
	for i, e := range w.fleet.engines {
		if e.id == p.Decode {
			facts.PeakBlocks = w.peak[i]
		}
	}
	w.sayFacts(facts, res)
	return facts, nil
}

// sayFacts shows where the request went and what it took.
func (w *watch) sayFacts(f watchedFacts, res bench.Result) {
	s := w.screen
	arrow := s.paint(dim, " -> ")
	s.say("")
	s.say("   path     router (%s)%s%s%s%s", portOf(w.fleet.base),
		arrow, s.paint(green, w.fleet.where(f.Prefill)), arrow, s.paint(cyan, w.fleet.where(f.Decode)))
	s.say("   room     %d: where the two met, for this request only", f.Room)
	s.say("   silence  %s, then %s tokens, %s apart", timeText(w.onClock(res.TTFT)), thousands(f.Tokens), timeText(w.onClock(mean(res.Gaps))))
	s.say("   KV       %s blocks on %s at the most, now %d in use on all engines", thousands(f.PeakBlocks), f.Decode, f.BlocksLeft)
	s.say("   answer   %.60s...", res.Text)
}

// mean returns the average of ds.
func mean(ds []time.Duration) time.Duration {
	if len(ds) == 0 {
		return 0
	}
	var sum time.Duration
	for _, d := range ds {
		sum += d
	}
	return sum / time.Duration(len(ds))
}

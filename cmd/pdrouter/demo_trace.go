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

// replayLook is how often the engines are looked at during the replay, and
// replayLine how often a line says how it goes where nothing moves.
const (
	replayLook = 50 * time.Millisecond
	replayLine = 2 * time.Second
)

// A replaying is a replay that is under way.
type replaying struct {
	*demo
	reqs   []bench.Request
	before []sim.Stats
	began  time.Time
	tally  bench.Tally

	mu    sync.Mutex
	peaks []float64
}

// replay plays the beginning of the public trace.
func (d *demo) replay(ctx context.Context) (traceFacts, error) {
	reqs, err := bench.Conversation()
	if err != nil {
		return traceFacts{}, err
	}
	reqs = bench.Before(reqs, d.plan.trace)
	total, repeated := bench.Lengths(reqs)
	d.screen.title(fmt.Sprintf("3. The first %s of a public trace, %g times as fast", minutes(d.plan.trace), d.plan.clock))
	d.screen.say("   Mooncake's conversation trace: %s requests with %s prompt tokens, in", thousands(len(reqs)), thousands(total))
	d.screen.say("   bursts, as they came. %s of the tokens repeat the beginning of an earlier", percent(repeated, total))
	d.screen.say("   prompt. The texts are made up from the trace's block ids: equal ids, equal")
	d.screen.say("   text.")
	d.screen.say("")
	p := &replaying{demo: d, reqs: reqs, before: d.fleet.stats(), peaks: make([]float64, len(d.fleet.engines)), began: time.Now()}
	rows := []row{p.timeRow}
	for i := range d.fleet.engines {
		rows = append(rows, func(width int) string { return p.engineRow(i, width) })
	}
	if !d.screen.terminal {
		d.screen.say("%s", p.progressHead())
	}
	stop := d.screen.move(append(rows, p.latencyRow, p.cacheRow)...)
	err = p.run(ctx)
	stop(true)
	facts := p.facts(total, repeated)
	if err == nil {
		p.sayFacts(facts)
	}
	return facts, err
}

// run runs the replay and looks on.
func (p *replaying) run(ctx context.Context) error {
	var looking errgroup.Group
	ended := make(chan struct{})
	looking.Go(func() error {
		p.lookOn(ended)
		return nil
	})
	replay := bench.Replay{Client: p.fleet.client, Speed: p.plan.clock}
	err := replay.Run(ctx, p.reqs, &p.tally)
	close(ended)
	_ = looking.Wait() // it has no error
	return err
}

// lookOn notes how full the engines are, and says now and then how it goes if
// there is no picture that does.
func (p *replaying) lookOn(ended <-chan struct{}) {
	tick, line := time.NewTicker(replayLook), time.NewTicker(replayLine)
	defer tick.Stop()
	defer line.Stop()
	for {
		select {
		case <-ended:
			return
		case <-tick.C:
			p.lookOnce()
		case <-line.C:
			if !p.screen.terminal {
				p.screen.say("%s", p.progressLine())
			}
		}
	}
}

func (p *replaying) lookOnce() {
	stats := p.fleet.stats()
	p.mu.Lock()
	defer p.mu.Unlock()
	for i, st := range stats {
		p.peaks[i] = max(p.peaks[i], fullness(st))
	}
}

// at returns how far the trace has come, on its own clock.
func (p *replaying) at() time.Duration { return p.onClock(time.Since(p.began)) }

// progressHead and progressLine are the picture where nothing moves.
func (p *replaying) progressHead() string {
	columns := []string{"      time  done  open  failed   KV:"}
	for _, e := range p.fleet.engines {
		columns = append(columns, e.id)
	}
	return strings.Join(columns, "  ")
}

func (p *replaying) progressLine() string {
	t := p.tally.Totals()
	columns := []string{fmt.Sprintf("   %5.1f s %5d %5d %7d      ", p.at().Seconds(), t.Done, t.Open(), t.Failed)}
	for _, e := range p.fleet.engines {
		columns = append(columns, fmt.Sprintf("%*.0f %%", len(e.id)-2, 100*fullness(e.Stats())))
	}
	return strings.Join(columns, "  ")
}

func (p *replaying) timeRow(width int) string {
	t, at := p.tally.Totals(), min(p.at(), p.plan.trace)
	text := fmt.Sprintf(" %3.0f of %.0f s, %d done, %d open", at.Seconds(), p.plan.trace.Seconds(), t.Done, t.Open())
	if t.Failed > 0 {
		text += p.screen.paint(red, fmt.Sprintf(", %d failed", t.Failed))
	}
	share := float64(at) / float64(p.plan.trace)
	return fmt.Sprintf("   %-9s  %s%s", "trace", p.screen.bar(rowBar(width), fill{share, "█", yellow}), text)
}

// engineRow is how full the KV cache of an engine is, and what it has had.
func (p *replaying) engineRow(i, width int) string {
	e, st := p.fleet.engines[i], p.fleet.engines[i].Stats()
	had := st.TotalRequests - p.before[i].TotalRequests
	text := fmt.Sprintf(" KV %2.0f %%, %d running", 100*fullness(st), st.Running)
	if e.role == sim.Prefill {
		text = fmt.Sprintf(" KV %2.0f %%, kept %2.0f %%", 100*fullness(st), 100*float64(st.IdleBlocks)/float64(st.TotalBlocks))
	}
	return fmt.Sprintf("   %-9s  %s%-20s %4d requests", e.id, p.kvBar(st, rowBar(width)), text, had)
}

func (p *replaying) latencyRow(int) string {
	t := p.tally.Totals()
	return fmt.Sprintf("   %-9s  TTFT p50 %s, p99 %s   ITL p50 %s, p99 %s", "tokens",
		p.quantile(&t.TTFT, 0.5), p.quantile(&t.TTFT, 0.99), p.quantile(&t.ITL, 0.5), p.quantile(&t.ITL, 0.99))
}

func (p *replaying) cacheRow(int) string {
	queried, found := p.fleet.hits(p.before)
	return fmt.Sprintf("   %-9s  %s of the prompt tokens were found", "cache", percent(found, queried))
}

// rowBar is how long a bar may be that text follows.
func rowBar(width int) int { return max(min(width-52, 40), 8) }

func (p *replaying) quantile(s *bench.Spread, q float64) string {
	if s.Count() == 0 {
		return "-"
	}
	return timeText(p.onClock(s.Quantile(q)))
}

// facts returns what there is to know of the replay.
func (p *replaying) facts(total, repeated int) traceFacts {
	t := p.tally.Totals()
	quantiles := func(s *bench.Spread) [2]float64 {
		return [2]float64{p.onClock(s.Quantile(0.5)).Seconds(), p.onClock(s.Quantile(0.99)).Seconds()}
	}
	_, found := p.fleet.hits(p.before)
	return traceFacts{
		Requests: len(p.reqs), Done: t.Done, Failed: append([]string{}, t.Faults...), FailedCount: t.Failed,
		PromptTokens: total, FoundTokens: found, RepeatTokens: repeated, Tokens: t.Tokens,
		TTFT: quantiles(&t.TTFT), ITL: quantiles(&t.ITL), Late: p.onClock(t.Lag.Quantile(0.99)).Seconds(),
		Shares: p.fleet.served(p.before), KVPeaks: p.peaks,
	}
}

// sayFacts shows what came of it.
func (p *replaying) sayFacts(f traceFacts) {
	s, t := p.screen, p.tally.Totals()
	s.say("")
	s.say("   requests  %s of %s answered in full, %d failed; %s tokens", thousands(f.Done-f.FailedCount), thousands(f.Requests), f.FailedCount, thousands(f.Tokens))
	s.say("   TTFT      p50 %s, p99 %s: time to the first token", p.quantile(&t.TTFT, 0.5), p.quantile(&t.TTFT, 0.99))
	s.say("   ITL       p50 %s, p99 %s: time between two tokens", p.quantile(&t.ITL, 0.5), p.quantile(&t.ITL, 0.99))
	s.say("   cache     %s of the prompt tokens were found in it, of %s that repeat", percent(f.FoundTokens, f.PromptTokens), percent(f.RepeatTokens, f.PromptTokens))
	for i, e := range p.fleet.engines {
		s.say("   %-9s %s of the requests, KV in use at most %.0f %%", e.id, p.shareOf(f.Shares, i), 100*f.KVPeaks[i])
	}
	if usual := demoDecodePerToken.Seconds(); f.ITL[1] > 5*usual || f.Late > 5 {
		s.say("   %s", s.paint(yellow, "This machine has other work: tokens came late, and times are longer by that."))
	}
}

// shareOf returns the share of worker i among those of its role.
func (p *replaying) shareOf(shares []demoShare, i int) string {
	total := 0
	for _, s := range shares {
		if s.Role == shares[i].Role {
			total += s.Requests
		}
	}
	return percent(shares[i].Requests, total)
}

// fullness returns which share of an engine's KV cache is in use.
func fullness(st sim.Stats) float64 { return float64(st.UsedBlocks) / float64(max(st.TotalBlocks, 1)) }

// minutes returns d as a title has it.
func minutes(d time.Duration) string {
	if d == 2*time.Minute {
		return "two minutes"
	}
	return d.String()
}

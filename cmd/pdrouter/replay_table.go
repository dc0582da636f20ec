package main

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"pdrouter/bench"
)

// replayBar is how many columns a bar of the table has.
const replayBar = 8

// writeTable shows rows as a table with bars: ours, then those of others.
func (r *replayRun) writeTable(rows []bench.Row, ours map[string]bool) {
	s := r.out
	total, repeated := bench.Lengths(r.reqs)
	span := r.reqs[len(r.reqs)-1].At()
	s.say("%s: %s requests in %s,", r.name, thousands(len(r.reqs)), span.Round(time.Second))
	s.say("%s prompt tokens, of which %s repeat an earlier prompt's beginning.", thousands(total), percent(repeated, total))
	s.say("%g times as fast, on %s with %s tokens of KV each%s.", r.speed, count(r.fleet.Workers, "prefill worker"), thousands(r.fleet.Engine.KVTokens), r.conditions())
	full := scale{hit: bench.Ceiling(r.reqs)}
	for _, row := range rows {
		full.mean = max(full.mean, row.TTFTMean)
	}
	if full.hit > 0 {
		s.say("Bars of hit ratio end at %s, which one cache without an end would have.", figure(full.hit, 3))
	}
	for _, part := range []struct {
		title string
		ours  bool
	}{{"pdrouter's policies", true}, {"others' policies, as they describe them", false}} {
		mine := slices.DeleteFunc(slices.Clone(rows), func(row bench.Row) bool { return ours[row.Policy] != part.ours })
		if len(mine) == 0 {
			continue
		}
		s.say("")
		s.say("%s", s.paint(bold, part.title))
		s.say("%s", s.paint(dim, r.heading()))
		colour := green
		if !part.ours {
			colour = cyan
		}
		for _, row := range mine {
			s.say("%s", r.line(row, full, colour))
		}
	}
}

// conditions are what else was said of the replay.
func (r *replayRun) conditions() string {
	var text strings.Builder
	if r.seeds > 1 {
		fmt.Fprintf(&text, ",\nmeans of %d seeds", r.seeds)
	}
	if r.fleet.Stale > 0 {
		fmt.Fprintf(&text, ", reports %v old", r.fleet.Stale)
	}
	return text.String()
}

// heading names the columns of line.
func (r *replayRun) heading() string {
	return fmt.Sprintf("%-19s  %-14s  %-15s %6s %6s %6s %5s", "policy", "hit ratio", "mean TTFT, s", "p50", "p90", "p99", "imb.")
}

// A scale says where full bars end.
type scale struct{ hit, mean float64 }

// line is a row of the table.
func (r *replayRun) line(row bench.Row, full scale, colour string) string {
	bar := func(f, full float64, colour string) string {
		if math.IsNaN(f) || full <= 0 {
			return strings.Repeat(" ", replayBar)
		}
		return r.out.bar(replayBar, fill{min(f/full, 1), "█", colour})
	}
	hit, mean := bar(row.HitRatio, full.hit, colour), bar(row.TTFTMean, full.mean, yellow)
	return fmt.Sprintf("%-19s  %5s %s  %6s %s %6s %6s %6s %5s", row.Policy, figure(row.HitRatio, 3), hit,
		inSeconds(row.TTFTMean), mean, inSeconds(row.TTFTP50), inSeconds(row.TTFTP90), inSeconds(row.TTFTP99), figure(row.Imbalance, 2))
}

// figure returns f with so many digits; a dash if it is not known.
func figure(f float64, digits int) string {
	if math.IsNaN(f) {
		return "-"
	}
	return fmt.Sprintf("%.*f", digits, f)
}

// inSeconds returns a time with some three digits that matter.
func inSeconds(f float64) string {
	switch {
	case f < 1:
		return figure(f, 3)
	case f < 10:
		return figure(f, 2)
	case f < 1000:
		return figure(f, 1)
	default:
		return figure(f, 0)
	}
}

// count returns n things in words.
func count(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}

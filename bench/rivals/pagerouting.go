package main

import "fmt"

// routing writes a table for each track.
func (p *page) routing() {
	if len(p.all.Routing) == 0 {
		return
	}
	p.say("## Routing quality\n")
	p.say("A slice of Mooncake's conversation trace, part of this repository, sent over HTTP by `pdrouter replay --live` at %d times its speed. Prefill engines hold %d tokens, the two decode engines need %v for a token. Hit ratio and imbalance (tokens computed by the busiest prefill engine, of the mean) are the engines' own. Medians, with the least and the most of all rounds where there were several.\n",
		traceSpeed, traceKV, decodeToken)
	for _, t := range tracks() {
		p.track(t)
	}
}

func (p *page) track(t track) {
	runs := p.all.on(t)
	if len(runs) == 0 {
		return
	}
	p.say("### %s\n", t.title)
	p.say("%d prefill engines that need %v for a token that is not cached.\n", t.size.prefills, t.token)
	p.heading("router", "hit ratio", "mean TTFT, s", "p99 TTFT, s", "imbalance", "rounds", "requests", "failed")
	for _, r := range runs {
		p.row(r.Contender, r.Hit.text("%.3f"), r.Mean.text("%.3f"), r.P99.text("%.2f"), r.Imbalance.text("%.2f"),
			fmt.Sprint(r.Rounds), fmt.Sprint(r.Requests), fmt.Sprint(r.Failed))
	}
	p.say("")
	for _, we := range runs {
		for _, they := range runs {
			if we.of(ours) && !they.of(ours) && we.Dialect == they.Dialect {
				p.loseTrack(t, we, they)
			}
		}
	}
}

// loseTrack notes in what ours is worse on a track.
func (p *page) loseTrack(t track, we, they routed) {
	p.lose(we.Hit.Median < they.Hit.Median, "%s, hit ratio: %.3f, %s %.3f.", t.title, we.Hit.Median, they.Contender, they.Hit.Median)
	p.lose(we.Mean.Median > they.Mean.Median, "%s, mean TTFT: %.3f s, %s %.3f s.", t.title, we.Mean.Median, they.Contender, they.Mean.Median)
	p.lose(we.P99.Median > they.P99.Median, "%s, p99 of TTFT: %.2f s, %s %.2f s.", t.title, we.P99.Median, they.Contender, they.P99.Median)
	p.lose(we.Imbalance.Median > they.Imbalance.Median, "%s, imbalance: %.2f, %s %.2f.", t.title, we.Imbalance.Median, they.Contender, they.Imbalance.Median)
	p.lose(we.Failed > they.Failed, "%s, requests that failed: %d, %s %d.", t.title, we.Failed, they.Contender, they.Failed)
}

// text shows the median, and the range if there is one.
func (s spread) text(format string) string {
	text := fmt.Sprintf(format, s.Median)
	if s.Least == s.Most {
		return text
	}
	return text + fmt.Sprintf(" ("+format+" to "+format+")", s.Least, s.Most)
}

// on returns what was measured on a track, in the order of the contenders.
func (r *results) on(t track) (all []routed) {
	for _, one := range r.Routing {
		if one.Track == t.title {
			all = append(all, one)
		}
	}
	return all
}

// trackGoals writes how ours stands to smg on each track.
func (p *page) trackGoals() {
	for _, t := range tracks() {
		runs := p.all.on(t)
		if len(runs) < 2 {
			continue
		}
		we, smg := runs[0], runs[1]
		p.goal(we.Hit.Median > smg.Hit.Median, "hit ratio: "+t.title, fmt.Sprintf("above smg's %.3f", smg.Hit.Median), fmt.Sprintf("%.3f", we.Hit.Median))
		p.goal(we.Mean.Median < smg.Mean.Median, "mean TTFT: "+t.title, fmt.Sprintf("below smg's %.3f s", smg.Mean.Median), fmt.Sprintf("%.3f s", we.Mean.Median))
	}
}

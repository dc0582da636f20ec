package main

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"pdrouter/admin"
)

// explain shows a request to people.
func explain(s *screen, r *admin.RequestInfo) {
	explainHead(s, r)
	s.say("")
	explainPhases(s, r)
	s.say("")
	if r.PromptBytes > 0 {
		explainFigures(s, r)
		s.say("")
	}
	for i := range r.Attempts {
		explainAttempt(s, i+1, &r.Attempts[i])
	}
	if n := len(r.Attempts); n > 0 {
		explainChoice(s, &r.Attempts[n-1])
		s.say("")
	}
	for _, sentence := range conclusions(r) {
		s.wrap("", sentence)
	}
}

// explainHead says which request it is and what came of it.
func explainHead(s *screen, r *admin.RequestInfo) {
	s.say("%s", s.paint(bold, r.ID))
	what := []string{cmp.Or(r.Endpoint, "?"), cmp.Or(r.Model, "model not known yet")}
	if r.Streaming {
		what = append(what, "stream")
	} else if r.Model != "" {
		what = append(what, "JSON")
	}
	for _, more := range []string{r.Class, r.Dialect} {
		if more != "" {
			what = append(what, more)
		}
	}
	s.say("%s", strings.Join(what, ", "))
	s.say("%s after %s, begun %s", outcome(s, r), shortTime(r.Age), r.Started.UTC().Format("2006-01-02 15:04:05.000 UTC"))
}

// outcome says how a request ended, or that it runs.
func outcome(s *screen, r *admin.RequestInfo) string {
	switch {
	case r.Running:
		return s.paint(yellow, "runs, in phase "+r.Phase+",")
	case r.Code == codeLeft:
		return s.paint(yellow, "left by its client")
	case r.Code != "":
		return s.paint(red, fmt.Sprintf("failed with status %d, %s,", valueOf(r.Status), r.Code))
	default:
		return s.paint(green, fmt.Sprintf("answered with status %d", valueOf(r.Status)))
	}
}

// explainPhases draws when the request was in which phase.
func explainPhases(s *screen, r *admin.RequestInfo) {
	columns := min(max(s.width()-50, 10), 50)
	whole := max(r.Age, 1e-9)
	colours := map[string]string{"prefill": green, "hand-off": yellow, "relay": cyan, "decode": cyan}
	for _, p := range r.Phases {
		before := min(p.At/whole, 1-1/float64(columns)) // even a short phase at the end is seen
		bar := s.bar(columns, fill{before, "·", dim}, fill{p.Seconds / whole, "█", colours[p.Phase]})
		s.say("%s", strings.TrimRight(fmt.Sprintf("  %-9s %s %8s  %s", p.Phase, bar, shortTime(p.Seconds), phaseNote(r, p.Phase)), " "))
	}
}

// phaseNote says where a phase was, or what was waited for in it.
func phaseNote(r *admin.RequestInfo, phase string) string {
	n := len(r.Attempts)
	switch {
	case phase == "admit" && r.Lacks != nil && r.Running && r.Phase == "admit":
		return "waits for " + *r.Lacks
	case phase == "admit" && n > 1:
		return fmt.Sprintf("with %d earlier %s", n-1, plural(n-1, "attempt"))
	case phase == "admit" && r.Lacked != nil:
		return "waited for " + *r.Lacked
	case n == 0:
		return ""
	case phase == "prefill":
		return "on " + r.Pair.Prefill
	case phase == "hand-off":
		return r.Pair.Prefill + " to " + r.Pair.Decode
	case phase == "decode", phase == "relay" && r.Streaming:
		return "from " + r.Pair.Decode
	}
	return ""
}

// explainFigures says what is known in numbers.
func explainFigures(s *screen, r *admin.RequestInfo) {
	s.wrap("  tokens    ", tokensText(r))
	if r.TTFT != nil {
		text := shortTime(*r.TTFT) + " to the first token"
		if r.ITL != nil {
			text += fmt.Sprintf(", then %s between reads, %s at the most", shortTime(*r.ITL), shortTime(*r.Longest))
		}
		s.wrap("  times     ", text)
	}
	if r.Reserved != nil {
		s.wrap("  KV        ", fmt.Sprintf("%s tokens reserved on %s", thousands(int(math.Round(*r.Reserved))), r.Pair.Decode))
	}
}

// tokensText says how many tokens there were.
func tokensText(r *admin.RequestInfo) string {
	if r.PromptTokens == nil {
		return fmt.Sprintf("not known; the prompt has %s bytes", thousands(r.PromptBytes))
	}
	text := thousands(int(*r.PromptTokens)) + " in the prompt"
	if r.CachedTokens != nil {
		text += fmt.Sprintf(", %s of them in prefill's cache", thousands(int(*r.CachedTokens)))
	}
	if r.PredictedTokens != nil {
		text += fmt.Sprintf(" (%s expected)", thousands(int(*r.PredictedTokens)))
	}
	if r.AnswerTokens != nil {
		text += fmt.Sprintf("; %s in the answer", thousands(int(*r.AnswerTokens)))
	}
	return text
}

// explainAttempt says what came of an attempt.
func explainAttempt(s *screen, number int, a *admin.AttemptInfo) {
	room := ""
	if a.Room != nil {
		room = ", room " + *a.Room
	}
	end := "goes on"
	switch {
	case a.Code == codeLeft:
		end = s.paint(yellow, "its client left after "+shortTime(*a.Ended-a.Leased))
	case a.Code != "":
		end = "failed after " + shortTime(*a.Ended-a.Leased)
		if a.Leg != "" {
			end += " in " + a.Leg
		}
		end = s.paint(red, end+": "+a.Code)
	case a.Ended != nil:
		end = s.paint(green, "well, in "+shortTime(*a.Ended-a.Leased))
	}
	s.wrap(fmt.Sprintf("  attempt %d  ", number), fmt.Sprintf("%s -> %s%s, at %s: %s", a.Prefill, a.Decode, room, shortTime(a.Leased), end))
	if a.Reason != "" && a.Code != codeLeft {
		s.wrap("             ", a.Reason)
	}
}

// explainChoice shows the candidates of the last attempt.
func explainChoice(s *screen, a *admin.AttemptInfo) {
	c := &a.Choice
	for _, role := range []string{"prefill", "decode"} {
		of := c.Prefill
		if role == "decode" {
			of = c.Decode
		}
		var list []*admin.CandidateInfo
		for i := range c.Candidates {
			if c.Candidates[i].Role == role {
				list = append(list, &c.Candidates[i])
			}
		}
		if len(list) > 0 {
			s.say("")
			explainRole(s, c, of, role, list)
		}
	}
	if c.Unlisted > 0 {
		s.say("  and %d more %s", c.Unlisted, plural(c.Unlisted, "worker"))
	}
}

func explainRole(s *screen, c *admin.ChoiceInfo, of admin.RoleChoice, role string, list []*admin.CandidateInfo) {
	name := 8
	for _, o := range list {
		name = max(name, len(o.Worker))
	}
	s.wrap("  ", fmt.Sprintf("%s worker, by %s%s", role, cmp.Or(of.Reason, "the policy"), unitNote(of)))
	timed := slices.ContainsFunc(list, func(o *admin.CandidateInfo) bool { return o.Wait != nil })
	line := func(mark, worker string, cells ...string) string {
		if !timed { // decode workers have neither wait nor work
			cells = append(cells[:2:2], cells[4])
		}
		return fmt.Sprintf("  %s %-*s %8s", mark, name, worker, cells[0]) + fmt.Sprintf(strings.Repeat(" %9s", len(cells)-1), anys(cells[1:])...)
	}
	s.say("%s", s.paint(dim, line(" ", "", "requests", "held", "wait", "work", "cost")))
	for _, o := range list {
		requests := fmt.Sprint(o.InFlight)
		switch {
		case o.LeftOut != nil:
			s.say("%s", s.paint(dim, fmt.Sprintf("    %-*s %8s  left out: %s", name, o.Worker, requests, *o.LeftOut)))
		case o.Chosen:
			s.say("%s", s.paint(green, line(">", o.Worker, requests, heldText(c, o), optional(o.Wait, shortTime), optional(o.Work, shortTime), optional(o.Cost, costText))))
		default:
			s.say("%s", line(" ", o.Worker, requests, heldText(c, o), optional(o.Wait, shortTime), optional(o.Work, shortTime), optional(o.Cost, costText)))
		}
	}
}

func anys(texts []string) []any {
	all := make([]any, len(texts))
	for i, text := range texts {
		all[i] = text
	}
	return all
}

func unitNote(of admin.RoleChoice) string {
	if of.Unit == nil {
		return ""
	}
	return " (cost in " + *of.Unit + ")"
}

func heldText(c *admin.ChoiceInfo, o *admin.CandidateInfo) string {
	if o.Blocks == nil || c.Blocks == nil {
		return "-"
	}
	return fmt.Sprintf("%d of %d", *o.Blocks, *c.Blocks)
}

func costText(v float64) string { return fmt.Sprintf("%.3g", v) }

func optional(v *float64, text func(float64) string) string {
	if v == nil {
		return "-"
	}
	return text(*v)
}

// shortTime returns seconds as people compare them.
func shortTime(seconds float64) string {
	switch {
	case seconds > 0 && seconds < 0.01:
		return fmt.Sprintf("%.1f ms", seconds*1000)
	case seconds >= 120:
		return upText(seconds)
	}
	return timeText(time.Duration(seconds * float64(time.Second)))
}

func plural(n int, word string) string {
	if n == 1 {
		return word
	}
	return word + "s"
}

func valueOf[T any](p *T) (v T) {
	if p != nil {
		v = *p
	}
	return v
}

package main

import (
	"cmp"
	"fmt"
	"math"

	"pdrouter/admin"
)

// conclusions say in sentences what a request's figures mean.
func conclusions(r *admin.RequestInfo) []string {
	var all []string
	if n := len(r.Attempts); n > 0 {
		a := &r.Attempts[n-1]
		all = append(all, whyPrefill(r, a), whyDecode(a))
		if n > 1 && r.Attempts[n-2].Reason != "" {
			first := r.Attempts[n-2]
			all = append(all, fmt.Sprintf("It was tried again because the attempt before had failed%s: %s.", inLeg(first.Leg), cmp.Or(first.Code, "no reason")))
		}
	}
	return append(all, ending(r))
}

// whyPrefill says why the prefill worker was chosen.
func whyPrefill(r *admin.RequestInfo, a *admin.AttemptInfo) string {
	chosen, next := contenders(&a.Choice, "prefill")
	text := "It went to " + a.Prefill
	switch {
	case chosen == nil:
		return text + "."
	case chosen.Wait == nil:
		return text + ", chosen by " + cmp.Or(a.Choice.Prefill.Reason, "the policy") + "."
	}
	text += ": held " + heldWords(r, &a.Choice, chosen) + ", " + waitWords(*chosen.Wait)
	if next == nil || next.Wait == nil {
		return text + "; no other worker could take it."
	}
	longer := *next.Wait + *next.Work - *chosen.Wait - *chosen.Work
	switch {
	case longer >= 0.001:
		text += fmt.Sprintf("; the next best, %s, would have taken %s longer.", next.Worker, shortTime(longer))
	case longer > -0.001:
		text += fmt.Sprintf("; %s would have been as good.", next.Worker)
	default:
		text += fmt.Sprintf("; %s would have had it done %s sooner, but with more to compute, which others would have waited for.", next.Worker, shortTime(-longer))
	}
	return text
}

// heldWords says how much of the prompt a worker was believed to hold.
func heldWords(r *admin.RequestInfo, c *admin.ChoiceInfo, o *admin.CandidateInfo) string {
	if c.Blocks == nil {
		return "nothing of a prompt this short"
	}
	if *o.Blocks == 0 {
		return fmt.Sprintf("none of %d %s", *c.Blocks, plural(*c.Blocks, "block"))
	}
	text := fmt.Sprintf("%d of %d %s", *o.Blocks, *c.Blocks, plural(*c.Blocks, "block"))
	if r.PromptTokens != nil && c.BlockBytes != nil && r.PromptBytes > 0 {
		share := min(float64(*o.Blocks**c.BlockBytes)/float64(r.PromptBytes), 1)
		text += fmt.Sprintf(" (%s tokens)", thousands(int(math.Round(share*float64(*r.PromptTokens)))))
	}
	return text
}

func waitWords(wait float64) string {
	if wait < 0.001 {
		return "no wait"
	}
	return shortTime(wait) + " of work before it"
}

// whyDecode says why the decode worker was chosen.
func whyDecode(a *admin.AttemptInfo) string {
	chosen, next := contenders(&a.Choice, "decode")
	text := "Its answer came from " + a.Decode
	if a.Ended == nil || a.Code != "" {
		text = "Its answer was to come from " + a.Decode
	}
	if chosen == nil {
		return text + "."
	}
	text += ": " + cmp.Or(a.Choice.Decode.Reason, "the policy's choice") + fmt.Sprintf(", with %d %s there", chosen.InFlight, plural(chosen.InFlight, "request"))
	if next != nil {
		text += fmt.Sprintf(" and %d on %s", next.InFlight, next.Worker)
	}
	return text + "."
}

// contenders returns who was chosen for a role, and the next best; nil: there is
// none.
func contenders(c *admin.ChoiceInfo, role string) (chosen, next *admin.CandidateInfo) {
	for i := range c.Candidates {
		o := &c.Candidates[i]
		switch {
		case o.Role != role:
		case o.Chosen:
			chosen = o
		case o.LeftOut != nil:
		case next == nil, o.Cost != nil && next.Cost != nil && *o.Cost < *next.Cost:
			next = o
		}
	}
	return chosen, next
}

// ending says how the request ended, or what it does now.
func ending(r *admin.RequestInfo) string {
	n := len(r.Phases)
	switch {
	case r.Running && r.Lacks != nil:
		return fmt.Sprintf("It waits for %s.", lackWords(*r.Lacks))
	case r.Running && n > 0:
		return fmt.Sprintf("It has been in phase %s for %s.", r.Phase, shortTime(r.Phases[n-1].Seconds))
	case r.Running:
		return "It has just come."
	case r.Code == codeLeft:
		return fmt.Sprintf("The client left after %s, in phase %s.", shortTime(r.Age), r.Phase)
	case r.Code != "" && len(r.Attempts) == 0:
		return "It was never given to a worker: " + cmp.Or(r.Reason, r.Code) + "."
	case r.Code != "":
		return fmt.Sprintf("It failed with status %d: %s.", valueOf(r.Status), cmp.Or(r.Reason, r.Code))
	}
	return "It was answered in full."
}

// codeLeft is the code of a request whose client did not wait for its end.
const codeLeft = "client_gone"

// lackWords says what a shortage is.
func lackWords(lack string) string {
	switch lack {
	case "slots":
		return "a slot: as many requests are under way as may be"
	case "prefill":
		return "a prefill worker: all have enough to do"
	case "decode":
		return "room in the KV cache of a decode worker"
	}
	return lack
}

func inLeg(leg string) string {
	if leg == "" {
		return ""
	}
	return " in " + leg
}

package doctor

import (
	"fmt"
	"slices"
	"strings"

	"pdrouter/survey"
)

// A gap is in what two engines differ, and what that means.
type gap struct {
	what, do string
	apart    bool // they cannot be a pair
}

// pairs finds which prefill and decode engines fit one another. What is so for
// several pairs is told once.
func (c *Case) pairs(workers []examined) []Finding {
	found := &chart{check: Pairs}
	fit, all := 0, 0
	var gaps []gap
	names := map[gap][]string{}
	partners := map[string]int{}
	for _, p := range workers {
		for _, d := range workers {
			if !p.is("prefill") || !d.is("decode") {
				continue
			}
			all++
			apart := false
			for _, g := range between(p.engine, d.engine) {
				apart = apart || g.apart
				if !slices.Contains(gaps, g) {
					gaps = append(gaps, g)
				}
				names[g] = append(names[g], p.ID+"+"+d.ID)
			}
			if !apart {
				fit++
				partners[p.ID]++
				partners[d.ID]++
			}
		}
	}
	switch {
	case all == 0:
		found.note(Unknown, "", "", "nothing to compare: of one role or the other no engine is what it should be")
		return found.all
	case fit == 0:
		found.note(Fault, "", "start the engines of both roles alike", "no prefill engine fits any decode engine: no request can be served")
	default:
		found.note(OK, "", "", "%d of %d pairs fit", fit, all)
	}
	for _, g := range gaps {
		status := Warning
		if g.apart && slices.ContainsFunc(workers, func(w examined) bool {
			return (w.is("prefill") || w.is("decode")) && partners[w.ID] == 0 && strings.Contains("+"+strings.Join(names[g], "+")+"+", "+"+w.ID+"+")
		}) {
			status = Fault // somebody is left with no partner
		}
		found.note(status, listed(names[g]), g.do, "%s", g.what)
	}
	return found.all
}

// is reports whether w is configured for a role and its engine may have it.
func (w *examined) is(role string) bool {
	return w.Role == role && w.engine != nil && w.engine.HandsOver && (w.engine.Role == "" || w.engine.Role == role)
}

// listed returns the first of several names, and how many more there are.
func listed(names []string) string {
	const most = 3
	if len(names) <= most {
		return strings.Join(names, ", ")
	}
	return fmt.Sprintf("%s and %d more", strings.Join(names[:most], ", "), len(names)-most)
}

// between returns in what a prefill and a decode engine differ that should be
// alike. What one of them does not tell is not compared.
func between(p, d *survey.Engine) []gap {
	if p.Kind != d.Kind {
		return []gap{{fmt.Sprintf("prefill is %s, and decode %s", p.Kind, d.Kind), "use one kind of engine for both: they do not speak one another's hand-off", true}}
	}
	var gaps []gap
	differ := func(apart bool, name, prefill, decode, do string) {
		if prefill != decode && prefill != "" && decode != "" && prefill != "0" && decode != "0" {
			gaps = append(gaps, gap{fmt.Sprintf("%s is %s on prefill, and %s on decode", name, prefill, decode), do, apart})
		}
	}
	if !slices.ContainsFunc(p.Models, func(m string) bool { return slices.Contains(d.Models, m) }) {
		differ(true, "the model", strings.Join(p.Models, ", "), strings.Join(d.Models, ", "), "serve one model, under one name (--served-model-name)")
	}
	page, tp := "--page-size", "--tp-size"
	if p.Kind == survey.VLLM {
		page, tp = "--block-size", "--tensor-parallel-size"
	}
	differ(true, "the page size", fmt.Sprint(p.PageSize), fmt.Sprint(d.PageSize), "give both the same "+page)
	differ(true, "the KV cache's dtype", p.KVDtype, d.KVDtype, "give both the same --kv-cache-dtype")
	differ(true, "the transfer backend", p.Backend, d.Backend, "give both the same --disaggregation-transfer-backend")
	differ(false, "the model's dtype", p.Dtype, d.Dtype, "give both the same --dtype")
	differ(false, "tensor parallelism", fmt.Sprint(p.TP), fmt.Sprint(d.TP), "give both the same "+tp+" unless you know that engine, model and backend hand over between the two")
	differ(false, "the version", p.Version, d.Version, "run one version on both sides: hand-offs between two are not tested by anybody")
	return gaps
}

package workers

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"pdrouter/exchange"
)

// discord says in what two engines differ that must agree in a pair, with
// prefill's value first; nothing if there is nothing. What an engine does not
// tell is not compared.
func discord(prefill, decode *Facts) string {
	if prefill.Dialect != decode.Dialect {
		return fmt.Sprintf("dialect %s and %s", prefill.Dialect, decode.Dialect)
	}
	var of []string
	if p, d := prefill.PageSize, decode.PageSize; p != d && p != 0 && d != 0 {
		of = append(of, fmt.Sprintf("page size %d and %d", p, d))
	}
	if p, d := prefill.KVDtype, decode.KVDtype; p != d && p != "" && d != "" {
		of = append(of, fmt.Sprintf("KV dtype %s and %s", p, d))
	}
	return strings.Join(of, ", ")
}

// split makes pools of workers of one dialect: one for each page size and KV
// dtype, if several are told. A worker that does not tell is then on its own,
// because nobody knows where it belongs; if all others say the same, it is
// believed to be like them.
func split(members []*Worker) []Pool {
	sizes := several(members, func(f *Facts) string { return strconv.Itoa(f.PageSize) }, "0")
	dtypes := several(members, func(f *Facts) string { return f.KVDtype }, "")
	var classes [][2]string
	var pools []Pool
	for _, w := range members {
		var class [2]string
		if sizes {
			class[0] = strconv.Itoa(w.facts.PageSize)
		}
		if dtypes {
			class[1] = w.facts.KVDtype
		}
		i := slices.Index(classes, class)
		if i < 0 {
			i = len(classes)
			classes = append(classes, class)
			pools = append(pools, Pool{Dialect: w.facts.Dialect})
		}
		pools[i].add(w)
	}
	return pools
}

// several reports whether workers tell different values of something.
func several(members []*Worker, of func(*Facts) string, unknown string) bool {
	known := unknown
	for _, w := range members {
		switch value := of(w.facts); {
		case value == unknown || value == known:
		case known == unknown:
			known = value
		default:
			return true
		}
	}
	return false
}

// MayPair reports whether a prefill and a decode engine fit one another, as far
// as they tell.
func MayPair(prefill, decode *Facts) bool {
	return shareModel(prefill, decode) && discord(prefill, decode) == ""
}

// misfitLocked returns the event that tells of w, which has just said what it
// is, that there are workers of the other role which speak its dialect and serve
// its model, and which it cannot be paired with all the same; nil if there are
// none.
func (r *Registry) misfitLocked(w *Worker) *Event {
	var first string
	more := 0
	for _, other := range r.all {
		if other.Role == w.Role || other.state() != Ready || w.state() != Ready {
			continue
		}
		if other.facts.Dialect != w.facts.Dialect || !shareModel(w.facts, other.facts) {
			continue
		}
		prefill, decode := w, other
		if w.Role == Decode {
			prefill, decode = other, w
		}
		what := discord(prefill.facts, decode.facts)
		switch {
		case what == "":
		case first == "":
			first = fmt.Sprintf("prefill worker %s (%s) and decode worker %s (%s) cannot be paired: %s", prefill.ID, prefill.URL, decode.ID, decode.URL, what)
		default:
			more++
		}
	}
	if first == "" {
		return nil
	}
	if more > 0 {
		first += fmt.Sprintf("; nor can %d more of the other role", more)
	}
	return &Event{Worker: w, Kind: Misfit, From: w.state(), To: w.state(), Reason: first}
}

func shareModel(a, b *Facts) bool {
	return slices.ContainsFunc(a.Models, func(m string) bool { return slices.Contains(b.Models, m) })
}

// discordLocked returns in what the workers differ that are ready and serve
// model: of the first two that do.
func (r *Registry) discordLocked(model string) string {
	for _, p := range r.all {
		for _, d := range r.all {
			if p.Role != Prefill || d.Role != Decode || p.state() != Ready || d.state() != Ready {
				continue
			}
			if what := discord(p.facts, d.facts); what != "" && p.facts.serves(model) && d.facts.serves(model) {
				return what
			}
		}
	}
	return ""
}

// Complete adds to what is known of w what its bootstrap server told: a page
// size and a KV dtype where the engine itself said nothing.
func (r *Registry) Complete(w *Worker, pageSize int, dtype string) {
	r.mu.Lock()
	if w.facts == nil {
		r.mu.Unlock()
		return
	}
	more := *w.facts
	if more.PageSize == 0 {
		more.PageSize = pageSize
	}
	if more.KVDtype == "" {
		more.KVDtype = dtype
	}
	if more.PageSize == w.facts.PageSize && more.KVDtype == w.facts.KVDtype {
		r.mu.Unlock()
		return
	}
	w.facts = &more
	r.rebuildLocked()
	misfit := r.misfitLocked(w)
	r.mu.Unlock()
	if misfit != nil {
		r.observe(*misfit)
	}
}

// bootstrapPeer returns how to reach the bootstrap server that facts of w name,
// nil if they name none.
func (r *Registry) bootstrapPeer(w *Worker, facts *Facts) *exchange.Peer {
	if facts == nil || w.Role != Prefill || facts.Dialect != "sglang" || facts.BootstrapPort == 0 {
		return nil
	}
	peer, err := exchange.NewPeer("http://"+facts.bootstrapAddress(), r.conns)
	if err != nil {
		return nil // a host that cannot be spoken to is decode's to complain of
	}
	return peer
}

package main

import (
	"cmp"
	"fmt"
	"strings"
	"sync"

	"pdrouter/admin"
)

// A watching is one request that is being followed, as far as it was shown.
type watching struct {
	*screen
	stop func(keep bool)

	told     map[string]bool // phases
	attempts int             // that were told as having begun
	ended    int             // that were told as having ended
	waits    string          // for what, as it was told

	mu  sync.Mutex // guards the following: rows are drawn by another goroutine
	now *admin.RequestInfo
	kv  map[string]admin.KVInfo // by worker
}

// begin shows that a request has come.
func (w *watching) begin(r *admin.RequestInfo) {
	w.told, w.now, w.kv = map[string]bool{}, r, map[string]admin.KVInfo{}
	w.say("")
	w.say("%s", w.paint(bold, r.ID))
	w.stop = w.move(w.answerRow, w.prefillRow, w.decodeRow)
}

// end takes what moves off the screen.
func (w *watching) end() { w.stop(false) }

// heard takes in how full the KV caches of a request's workers are. Where
// nothing can move it says so.
func (w *watching) heard(r *admin.RequestInfo, s *admin.Status) {
	w.mu.Lock()
	for _, worker := range s.Workers {
		if worker.ID == r.Pair.Prefill || worker.ID == r.Pair.Decode {
			w.kv[worker.ID] = worker.KV
		}
	}
	kv, known := w.kv[r.Pair.Decode]
	w.mu.Unlock()
	if known && !w.terminal && r.Running && r.Phase != "admit" {
		w.at(r.Age, r.Pair.Decode, "%s", kvText(w.screen, &kv, 20, w.width()))
	}
}

// show tells what is new of a request.
func (w *watching) show(r *admin.RequestInfo) {
	w.mu.Lock()
	w.now = r
	w.mu.Unlock()
	for _, p := range r.Phases {
		if p.Phase != "accept" && p.Phase != "admit" {
			w.tellEarlier(r)
			w.tellPath(r)
		}
		if what, text := w.phaseText(r, p); what != "" && !w.told[p.Phase] {
			w.told[p.Phase] = true
			w.at(p.At, what, "%s", text)
		}
	}
	w.tellEarlier(r)
	if waits := valueOf(r.Lacks); waits != w.waits {
		if w.waits = waits; waits != "" {
			w.at(r.Age, "waits", "for %s", lackWords(waits))
		}
	}
	if !r.Running {
		w.tellEnd(r)
	}
}

// tellPath tells of the pair of an attempt that has begun.
func (w *watching) tellPath(r *admin.RequestInfo) {
	n := len(r.Attempts)
	if n <= w.attempts || r.Attempts[n-1].Code != "" {
		return
	}
	w.attempts = n
	clear(w.told)
	w.told["admit"] = true
	a := &r.Attempts[n-1]
	waited := ""
	if a.Choice.Waited >= 0.001 {
		waited = ", waited " + shortTime(a.Choice.Waited)
		if r.Lacked != nil {
			waited += " for " + *r.Lacked
		}
	}
	w.at(a.Leased, "path", "%s -> %s%s, by %s", w.paint(green, a.Prefill), w.paint(cyan, a.Decode), waited, cmp.Or(a.Choice.Prefill.Reason, "the policy"))
}

// tellEarlier tells of attempts that have failed.
func (w *watching) tellEarlier(r *admin.RequestInfo) {
	for ; w.ended < len(r.Attempts); w.ended++ {
		a := &r.Attempts[w.ended]
		if a.Ended == nil {
			return
		}
		if a.Code != "" {
			w.at(*a.Ended, "failed", "%s", w.paint(red, fmt.Sprintf("attempt %d on %s -> %s%s: %s", w.ended+1, a.Prefill, a.Decode, inLeg(a.Leg), cmp.Or(a.Reason, a.Code))))
		}
	}
}

// phaseText says that a phase was reached, in a word and the rest; empty: that is
// not told.
func (w *watching) phaseText(r *admin.RequestInfo, p admin.PhaseInfo) (what, text string) {
	switch p.Phase {
	case "admit":
		return "accepted", fmt.Sprintf("%s for %s, %s bytes", cmp.Or(r.Endpoint, "request"), cmp.Or(r.Model, "any model"), thousands(r.BodyBytes))
	case "hand-off":
		return "prefilled", fmt.Sprintf("in %s; the KV cache goes to %s", shortTime(w.before(r, "prefill")), r.Pair.Decode)
	case "decode":
		return "prefilled", fmt.Sprintf("in %s; %s makes the answer", shortTime(w.before(r, "prefill")), r.Pair.Decode)
	case "relay":
		if r.Streaming {
			return "first token", ""
		}
		return "answer", "is passed on"
	}
	return "", ""
}

// before returns how long a phase was.
func (w *watching) before(r *admin.RequestInfo, phase string) float64 {
	for _, p := range r.Phases {
		if p.Phase == phase {
			return p.Seconds
		}
	}
	return 0
}

func (w *watching) tellEnd(r *admin.RequestInfo) {
	text := strings.TrimSuffix(outcome(w.screen, r), ",")
	if r.TTFT != nil {
		text += fmt.Sprintf("; %s of silence, then %s for the stream", shortTime(*r.TTFT), shortTime(r.Age-*r.TTFT))
	}
	if r.AnswerTokens != nil {
		text += fmt.Sprintf(", %s tokens", thousands(int(*r.AnswerTokens)))
	}
	w.at(r.Age, "ended", "%s", text)
}

// lost tells that a request has ended so long ago that it is forgotten.
func (w *watching) lost(r *admin.RequestInfo) {
	w.at(r.Age, "lost", "it has ended, and so many others since that it is forgotten")
}

// at says what happened so many seconds after the request had come. In a pipe
// that is one line, however long.
func (w *watching) at(seconds float64, what, format string, args ...any) {
	head, text := fmt.Sprintf("  %8.2f s  %-11s ", seconds, what), fmt.Sprintf(format, args...)
	if w.terminal {
		w.wrap(head, text)
		return
	}
	w.say("%s", strings.TrimRight(head+text, " "))
}

// answerRow is what the client has of its answer.
func (w *watching) answerRow(int) string {
	w.mu.Lock()
	r := w.now
	w.mu.Unlock()
	age := fmt.Sprintf("  %8.2f s  ", r.Age)
	switch {
	case r.TokenReads > 0:
		return age + fmt.Sprintf("answer      %s reads with tokens%s", thousands(r.TokenReads), w.rate(r))
	case r.Streaming || r.Phase == "prefill":
		return age + w.paint(dim, "answer      silence, in "+r.Phase+" ...")
	default:
		return age + w.paint(dim, r.Phase+" ...")
	}
}

func (w *watching) rate(r *admin.RequestInfo) string {
	text := ""
	if r.ITL != nil {
		text = ", " + shortTime(*r.ITL) + " apart"
	}
	if r.Silent != nil && *r.Silent > 1 {
		text += w.paint(yellow, ", silent for "+shortTime(*r.Silent))
	}
	return text
}

func (w *watching) prefillRow(width int) string {
	return w.workerRow(width, func(p *admin.PairInfo) string { return p.Prefill })
}

func (w *watching) decodeRow(width int) string {
	return w.workerRow(width, func(p *admin.PairInfo) string { return p.Decode })
}

// workerRow is the KV cache of one of the request's workers.
func (w *watching) workerRow(width int, of func(*admin.PairInfo) string) string {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.now.Pair == nil {
		return ""
	}
	id := of(w.now.Pair)
	kv, known := w.kv[id]
	if !known {
		return ""
	}
	room := width - 26
	return fmt.Sprintf("              %-11s %s", id, kvText(w.screen, &kv, min(max(room-50, 8), 40), room))
}

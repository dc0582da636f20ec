package router

import (
	"encoding/json"
	"fmt"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"time"

	"pdrouter/workers"
)

// check compares what happened with what the table says.
func (r *trialRun) check() {
	limit := 5
	if !r.well {
		limit = 3
	}
	for i, a := range r.attempts {
		ends := r.endsOf(a)
		more, none := i+1 < len(r.attempts), len(ends) == 0
		fits := func(e end) bool { return more == (e.again && i+1 < limit) }
		if none && more || !none && !slices.ContainsFunc(ends, fits) {
			r.t.Fatalf("attempt %d of %d ended %v: is another one due?", i+1, len(r.attempts), a.outcome)
		}
		if more {
			r.checkAvoided(a, r.attempts[i+1], ends)
		} else {
			r.checkAnswer(ends)
		}
		r.checkSights(i, a, ends)
	}
	if len(r.attempts) == 0 {
		r.t.Fatalf("there was no attempt; answer = %+v", r.got)
	}
	r.checkKeys()
	if r.t.Failed() {
		for _, l := range r.fleet.logs.All() {
			r.t.Log(l.Message, l.ContextMap())
		}
	}
}

// sickOf returns which engines of an attempt were sick.
func (r *trialRun) sickOf(a *tried) [2]bool {
	return [2]bool{
		r.sick[workers.Prefill] && a.workers[workers.Prefill].URL == r.fleet.prefill.URL,
		r.sick[workers.Decode] && a.workers[workers.Decode].URL == r.fleet.decode.URL,
	}
}

// endsOf returns the ends that an attempt may have come to, judged by whom it
// blamed: more than one if both legs failed before either was cancelled, none if
// nothing went wrong.
func (r *trialRun) endsOf(a *tried) []end {
	r.t.Helper()
	all := r.ends(r.sickOf(a))
	switch {
	case len(all) == 0:
		if a.outcome != [2]string{"ok", "ok"} {
			r.t.Errorf("the leases of an attempt that went well ended %v, want ok", a.outcome)
		}
		return nil
	case len(all) == 2 && a.outcome == [2]string{all[0].blames[0], all[1].blames[1]}:
		return all
	}
	for _, e := range all {
		if a.outcome == e.blames {
			return []end{e}
		}
	}
	r.t.Errorf("the leases ended %v, want %+v", a.outcome, all)
	return all
}

// checkAvoided checks that whoever was at fault is not asked again, as long as
// another one is there.
func (r *trialRun) checkAvoided(before, after *tried, ends []end) {
	if !r.well {
		return
	}
	for _, e := range ends {
		if before.workers[e.by] != after.workers[e.by] || e.blame == "handoff" && before.workers != after.workers {
			return
		}
	}
	r.t.Errorf("the attempt after %+v is made on the same workers", ends)
}

// checkSights checks what the engines saw of an attempt: who was not done when
// it failed is cut off, and told where engines have to be told, within 1 s (I3).
func (r *trialRun) checkSights(i int, a *tried, ends []end) {
	var failed time.Time // or later, but not by much
	for _, s := range r.legs {
		if s.attempt == i && !s.release && s.acted.After(failed) {
			failed = s.acted
		}
	}
	if len(ends) > 0 && (ends[0].late || ends[0].idle) {
		failed = failed.Add(patience)
	}
	seen := [2]int{}
	for _, s := range r.legs {
		if s.attempt != i || s.release {
			continue
		}
		if seen[s.role]++; seen[s.role] > 1 || s.role == workers.Decode && !r.concurrent() && a.outcome[workers.Prefill] != "ok" {
			r.t.Errorf("attempt %d: %s got a leg that it should not have got", i+1, s.role)
		}
		if d := s.cutOff.Sub(failed); len(ends) > 0 && !s.cutOff.IsZero() && d > time.Second {
			r.late = fmt.Errorf("attempt %d: the %s engine was cut off %v after the failure, want at most 1s", i+1, s.role, d)
		}
		if d := r.over.Sub(failed); len(ends) > 0 && i+1 == len(r.attempts) && d > time.Second {
			r.late = fmt.Errorf("all was over %v after the failure, want at most 1s", d)
		}
		want, sure := r.mustTell(a, s, ends)
		if got := r.toldOf(s); got != want && sure {
			r.t.Errorf("attempt %d: the %s engine was told to abort: %v, want %v", i+1, s.role, got, want)
		}
	}
}

// mustTell reports whether the engine of a leg must be told that nobody waits,
// and whether that is sure: a leg may have been cancelled in the moment in which
// its engine ended it.
func (r *trialRun) mustTell(a *tried, s sight, ends []end) (want, sure bool) {
	itself := r.sickOf(a)[s.role]
	switch {
	case len(ends) == 0 || !r.concurrent():
		return false, true
	case ends[0].late:
		return a.outcome[s.role] != "ok", true
	case a.outcome[s.role] == "canceled":
		return true, !itself || r.sequel(s.role).told
	default:
		return itself && r.sequel(s.role).told, true
	}
}

// toldOf reports whether the engine was told to abort a leg.
func (r *trialRun) toldOf(s sight) bool {
	e := [2][]*engine{r.fleet.prefills, r.fleet.decodes}[s.role][s.index]
	rid := s.keyOf("rid")
	return slices.ContainsFunc(e.aborted(), func(body string) bool { return rid != "" && strings.Contains(body, `"`+rid+`"`) })
}

// checkAnswer checks what the client was told.
func (r *trialRun) checkAnswer(ends []end) {
	r.t.Helper()
	code := r.got.header.Get("X-Smg-Error-Code")
	i := slices.IndexFunc(ends, func(e end) bool { return code == e.code || code == "" && e.status == http.StatusOK })
	want := end{sequel: sequel{shape: whole, status: http.StatusOK}}
	if i >= 0 {
		want = ends[i]
	}
	if r.got.status != want.status || r.got.err != nil || (i < 0) != (len(ends) == 0) {
		r.t.Errorf("answer = %d %s %s (%v), want %+v", r.got.status, code, r.got.body, r.got.err, ends)
		return
	}
	if regexp.MustCompile(`127\.0\.0\.1|10\.0\.0\.7|room`).MatchString(strings.ReplaceAll(r.got.body, inTrouble, "")) {
		r.t.Errorf("the client reads of the inside: %s", r.got.body)
	}
	switch want.shape {
	case whole:
		r.checkWhole()
	case theirs:
		if body := fmt.Sprintf(ownWords, r.got.status); r.got.body != body {
			r.t.Errorf("answer = %s, want the engine's own %s", r.got.body, body)
		}
	case envelope:
		r.checkEnvelope(r.got.body, want)
	case cut:
		told, ok := strings.CutPrefix(r.got.body, r.deed(workers.Decode).passed)
		payload, isEvent := strings.CutPrefix(told, "data: ")
		if !ok || !isEvent || strings.Count(told, "\n\n") != 1 || !strings.HasSuffix(told, "\n\n") {
			r.t.Errorf("the stream = %q, want what came and one event of ours", r.got.body)
		}
		r.checkEnvelope(payload, want)
	case asItIs, unread:
		if want := r.deed(workers.Decode).passed; r.got.body != want {
			r.t.Errorf("the stream = %q, want %q", r.got.body, want)
		}
	}
	r.checkRetryAfter(want)
	r.checkCounted(want.shape)
}

// checkCounted checks that an answer which began is counted as what it was.
func (r *trialRun) checkCounted(s shape) {
	r.t.Helper()
	label, began := map[shape]string{whole: "complete", cut: "truncated", asItIs: "engine_error", unread: "complete"}[s]
	all := r.fleet.value(r.t, "pdrouter_answer_ends_total", nil)
	if began && (all != 1 || r.fleet.value(r.t, "pdrouter_answer_ends_total", map[string]string{"end": label}) != 1) || !began && all != 0 {
		r.t.Errorf("%v answers are counted as ended, want one as %q if it began: %v", all, label, began)
	}
}

// checkRetryAfter: an engine's own is passed on where it speaks of the client,
// or of being busy.
func (r *trialRun) checkRetryAfter(e end) {
	r.t.Helper()
	want := ""
	if !e.taken && (e.shape == theirs || e.blame == "busy") {
		want = "7"
	}
	if got := r.got.header.Get("Retry-After"); got != want {
		r.t.Errorf("Retry-After = %q, want %q", got, want)
	}
}

func (r *trialRun) checkWhole() {
	r.t.Helper()
	want := chatAnswer
	if r.stream {
		want = strings.Join(soundFrames(), "")
	}
	if r.got.body != want {
		r.t.Errorf("answer = %q, want %q", r.got.body, want)
	}
}

// checkEnvelope checks that body is our error, and that it says how often the
// request was tried.
func (r *trialRun) checkEnvelope(body string, e end) {
	r.t.Helper()
	var env struct {
		Error struct{ Message, Code, Type string }
	}
	if err := json.Unmarshal([]byte(body), &env); err != nil || env.Error.Code != e.code || env.Error.Message == "" || env.Error.Type != "server_error" {
		r.t.Errorf("error = %s (%v), want an envelope with code %s", body, err, e.code)
	}
	tries := fmt.Sprintf("It was tried %d times.", len(r.attempts))
	if got := strings.Contains(env.Error.Message, tries); got != (len(r.attempts) > 1 && e.again) {
		r.t.Errorf("message = %q after %d attempts", env.Error.Message, len(r.attempts))
	}
}

// checkKeys checks that hand-off keys belong to one attempt, each (I2), and that
// what prefill holds for a decode that does not come is released or counted.
func (r *trialRun) checkKeys() {
	r.t.Helper()
	name := map[bool]string{true: "bootstrap_room", false: "remote_request_id"}[r.concurrent()]
	used, owner := map[string]bool{}, map[string]string{}
	released := 0
	for _, s := range r.legs {
		key := s.keyOf(name)
		if s.release {
			released++
		}
		if s.role == workers.Prefill && !r.concurrent() {
			continue // it is asked for one
		}
		place := fmt.Sprintf("%s %s %v", s.role, key, s.release)
		if key == "" || used[place] || owner[key] != "" && owner[key] != s.id {
			r.t.Errorf("hand-off key %q of %s is missing or used twice", key, place)
		}
		used[place], owner[key] = true, s.id
	}
	r.checkReleased(released)
}

// checkReleased checks that each hand-off that no decode took over was released
// or counted as orphaned.
func (r *trialRun) checkReleased(released int) {
	want := 0
	for _, a := range r.attempts {
		if ends := r.endsOf(a); len(ends) > 0 && !r.concurrent() && ends[0].by == workers.Decode && !ends[0].taken {
			want++
		}
	}
	orphaned := int(r.fleet.value(r.t, "pdrouter_orphaned_handoffs_total", nil))
	if released > want || orphaned > want || released+orphaned < want {
		r.t.Errorf("hand-offs that no decode took over: %d, of which released %d and orphaned %d", want, released, orphaned)
	}
}

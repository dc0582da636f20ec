package workers

import (
	"math"
	"testing"
	"time"

	"pdrouter/exchange"
)

// What another process's requests hold, and will need, is left to them, and to
// what reports show afterwards.
func TestHoldingsAreOthers(t *testing.T) {
	now := time.Now()
	full := func(used float64, at time.Time) *Report {
		return &Report{At: at, KVUsed: used, KVCapacity: 10_000, BlockSize: 16, GeneratedTokens: math.NaN(), Running: math.NaN()}
	}
	old := &ledger{}
	old.report(full(0, now), now)
	h := newHabits()
	claims := make([]claim, 10)
	for i := range claims {
		old.grant(&claims[i], need{habits: h, bytes: 900, limit: 100, answers: 1}, now)
		if i < 5 {
			old.begin(&claims[i], now)
		}
	}
	left := old.leave("http://d0", now)
	if left.Held < 10*300 || left.Peak < left.Held || left.Peak > 10*(300+100+16) {
		t.Errorf("left = %+v, want 10 prompts of 300 tokens and their answers", left)
	}
	if !old.others.there(old.now) || !old.rationed() {
		t.Error("who leaves does not reckon with who comes")
	}

	next := &ledger{}
	next.report(full(1500, now), now) // the engine does not know yet of all
	next.inherit(left, now)
	if next.usedNow() != left.Held {
		t.Errorf("%v tokens are in use, want %v", next.usedNow(), left.Held)
	}
	if _, all := next.needs(&next.outlook, 0); all < left.Peak {
		t.Errorf("%v tokens are reckoned with, want what the old one's answers will take, %v", all, left.Peak)
	}
	if !next.rationed() {
		t.Error("who comes does not leave who leaves a part")
	}
	later := now.Add(2 * time.Second)
	next.report(full(500, later), later)
	if next.usedNow() > 600 {
		t.Errorf("%v tokens are in use, want what the engine says, 500", next.usedNow())
	}
	var unknown ledger
	unknown.inherit(left, now)
	if unknown.known() {
		t.Error("a worker that tells nothing has a ledger")
	}
}

// Workers keep their IDs, and no ID is used again.
func TestNamesAreKept(t *testing.T) {
	specs := []Spec{{Role: Prefill, URL: "http://p0"}, {Role: Prefill, URL: "http://p1"}, {Role: Decode, URL: "http://d0"}}
	first := registryOf(t, Config{Specs: specs})
	if err := first.Remove("prefill-0"); err != nil {
		t.Fatal(err)
	}
	if _, err := first.Add(Spec{Role: Decode, URL: "http://d1"}); err != nil {
		t.Fatal(err)
	}
	if err := first.Drain("decode-1"); err != nil {
		t.Fatal(err)
	}
	second := registryOf(t, Config{Specs: []Spec{specs[2], specs[1], {Role: Decode, URL: "http://d1"}, {Role: Prefill, URL: "http://p2"}}, Names: first.Names()})
	second.Inherit(first.Leave())
	want := map[string]string{"http://p1": "prefill-1", "http://p2": "prefill-2", "http://d0": "decode-0", "http://d1": "decode-1"}
	for _, s := range second.Statuses() {
		if s.Worker.ID != want[s.Worker.URL] {
			t.Errorf("%s is %s, want %s", s.Worker.URL, s.Worker.ID, want[s.Worker.URL])
		}
		if drained := s.State == Draining; drained != (s.Worker.ID == "decode-1") {
			t.Errorf("%s drains: %t", s.Worker.ID, drained)
		}
	}
}

// What requests have been like is known at once.
func TestHabitsAreInherited(t *testing.T) {
	first, second := registryOf(t, Config{}), registryOf(t, Config{})
	h := first.habitsLocked("m")
	for range 100 {
		h.promptIs(400, 100)
		h.lengths.pass(-1, binOf(50))
		h.lengths.end(binOf(50))
	}
	h.lengths.refresh()
	second.Inherit(first.Leave())
	got := second.habitsLocked("m")
	if got.promptTokens(400) != h.promptTokens(400) || got.lengths.beyond(100) != h.lengths.beyond(100) {
		t.Errorf("a prompt has %v tokens, and %v answers are longer than 100; want %v and %v", got.promptTokens(400), got.lengths.beyond(100), h.promptTokens(400), h.lengths.beyond(100))
	}
	second.Inherit(Estate{Habits: map[string]Habit{"m": {Bytes: 1}}})
	if got.promptTokens(400) != h.promptTokens(400) {
		t.Error("what is no habit is taken for one")
	}
}

// registryOf returns a registry that does not run.
func registryOf(t *testing.T, cfg Config) *Registry {
	t.Helper()
	all := DefaultConfig()
	all.Specs, all.Names = cfg.Specs, cfg.Names
	r, err := NewRegistry(all, exchange.DefaultConfig(), nil, func(Event) {})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(r.Close)
	return r
}

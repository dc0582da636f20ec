package workers

import (
	"fmt"
	"math"
	"time"
)

// An identity is by what an engine is known again after a restart of the
// router: what it was, and what it told last. It is part of a snapshot.
type identity struct {
	Role    string `json:"role"`
	URL     string `json:"url"`
	Dialect string `json:"dialect"`
	Model   string `json:"model"`
	Version string `json:"version,omitempty"`

	At       time.Time          `json:"at"`                // when this was so
	Started  time.Time          `json:"started,omitzero"`  // when the engine's process started, if it tells
	Totals   map[string]float64 `json:"totals,omitempty"`  // those that only fall with a restart
	Computed map[string]float64 `json:"fills,omitempty"`   // totals of tokens that filled its cache
	Capacity float64            `json:"capacity,omitzero"` // tokens that its KV pool holds, if it tells
}

const (
	// newProcess is by how much the start time of a process must differ for it
	// to be another one. Engines tell it in seconds, some as now less uptime.
	newProcess = 2 * time.Second

	// An engine that does not tell when it was started (SGLang) is taken to be
	// the same if its totals have not fallen. Another process could have
	// overtaken them only by more work than the first one ever did, CPU time
	// included, and work that this router did not send: within an hour that is
	// a process that was hardly used, and then there is little to be wrong
	// about.
	byTotals = time.Hour

	// Of one that tells nothing it is taken on trust for as long as the router
	// takes to be started again, and an engine hardly: to load a model takes
	// minutes.
	onTrust = 2 * time.Minute
)

// identityOf returns the identity of a worker at a time.
func identityOf(spec Spec, facts *Facts, last Report, now time.Time) identity {
	id := identity{
		Role: spec.Role.String(), URL: spec.URL, Dialect: facts.Dialect, Model: facts.Models[0], Version: facts.Version,
		At: now.UTC().Round(0), Totals: map[string]float64{}, Computed: map[string]float64{},
	}
	if last.At.IsZero() {
		return id // the engine has told nothing
	}
	id.At = last.At.UTC().Round(0)
	id.Started = last.Started.UTC()
	note := func(in map[string]float64, name string, v float64) {
		if !math.IsNaN(v) && !math.IsInf(v, 0) {
			in[name] = v
		}
	}
	note(id.Totals, "prompt_tokens", last.PromptTokens)
	note(id.Totals, "generated_tokens", last.GeneratedTokens)
	note(id.Totals, "process_seconds", last.ProcessSeconds)
	note(id.Computed, "computed_tokens", last.ComputedLocally)
	note(id.Computed, "transferred_tokens", last.TransferredIn)
	if last.KVCapacity > 0 && !math.IsInf(last.KVCapacity, 0) {
		id.Capacity = last.KVCapacity
	}
	return id
}

// rememberedAs tells workers apart in a snapshot.
func (s *Spec) rememberedAs() string { return s.Role.String() + " " + s.URL }

func (id *identity) rememberedAs() string { return id.Role + " " + id.URL }

// changed says why an engine that is now is not the one that had been, or has
// nothing left of what it held; nothing if it is and may have.
func (id *identity) changed(now identity) string {
	age := now.At.Sub(id.At).Abs()
	switch {
	case id.Dialect != now.Dialect:
		return fmt.Sprintf("it speaks %s, no longer %s", now.Dialect, id.Dialect)
	case id.Model != now.Model:
		return fmt.Sprintf("it serves %s, no longer %s", now.Model, id.Model)
	case id.Version != now.Version:
		return fmt.Sprintf("its version is %s, no longer %s", now.Version, id.Version)
	}
	common, fallen := compareTotals(id.Totals, now.Totals)
	switch known := !id.Started.IsZero() && !now.Started.IsZero(); {
	case known && now.Started.Sub(id.Started).Abs() > newProcess:
		return fmt.Sprintf("it runs since %s, and not since %s any more", now.Started.Format(time.RFC3339), id.Started.Format(time.RFC3339))
	case fallen:
		return "its totals began anew"
	case !known && common == 0 && age > onTrust:
		return fmt.Sprintf("nothing tells whether it has been restarted since, %v ago", age.Round(time.Second))
	case !known && age > byTotals:
		return fmt.Sprintf("it does not tell when it was started, and this was %v ago", age.Round(time.Minute))
	case id.refilled(now):
		return "its cache has been filled anew by others"
	}
	return ""
}

// compareTotals returns how many totals are in both, and whether any has fallen.
func compareTotals(before, now map[string]float64) (common int, fallen bool) {
	for name, was := range before {
		if is, ok := now[name]; ok {
			common++
			fallen = fallen || is < was
		}
	}
	return common, fallen
}

// refilled reports whether as many tokens have come into the cache since as it
// holds: then what was there is gone, as the oldest goes first.
func (id *identity) refilled(now identity) bool {
	sum := 0.0
	for name, was := range id.Computed {
		sum += max(now.Computed[name]-was, 0)
	}
	return now.Capacity > 0 && sum >= now.Capacity
}

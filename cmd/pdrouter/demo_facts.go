package main

import (
	"fmt"
	"slices"

	"pdrouter/workers"
)

// demoFacts are what the demo saw: numbers that engines, router log and
// answers gave. What it prints is made of them, and so is the verdict. Times
// are in seconds on the engines' clock.
type demoFacts struct {
	Clock      float64      `json:"clock"` // how many times as fast as a real one
	Watched    watchedFacts `json:"watched"`
	Same       sameFacts    `json:"same"`
	Short      sameFacts    `json:"short"`
	Different  shareFacts   `json:"different"`
	Trace      traceFacts   `json:"trace"`
	Violations []string     `json:"violations"` // counted by the engines
	Warnings   []string     `json:"warnings"`   // of the router
	Faults     []string     `json:"faults"`     // the verdict: what was not as it must be
}

// watchedFacts are of the request that was watched.
type watchedFacts struct {
	PromptTokens int     `json:"prompt_tokens"`
	Tokens       int     `json:"tokens"`
	Prefill      string  `json:"prefill"`
	Decode       string  `json:"decode"`
	Room         uint64  `json:"room"`
	TTFT         float64 `json:"ttft_seconds"`
	Duration     float64 `json:"duration_seconds"`
	PeakBlocks   int     `json:"peak_blocks"` // of the decode engine's KV
	BlocksLeft   int     `json:"blocks_left"` // in use on all engines at the end
	Failed       string  `json:"failed,omitempty"`
}

// sameFacts are of one prompt that was sent several times, in that order.
type sameFacts struct {
	PromptTokens int        `json:"prompt_tokens"`
	Requests     []sameFact `json:"requests"`
}

type sameFact struct {
	Prefill string `json:"prefill"`
	Decode  string `json:"decode"`
	Found   int    `json:"found_tokens"`  // in the cache, by the prefill engines' count
	Told    int    `json:"cached_tokens"` // by the answer's usage; -1: it does not say
	Failed  string `json:"failed,omitempty"`
}

// A demoShare is how many requests a worker had.
type demoShare struct {
	Worker   string `json:"worker"`
	Role     string `json:"role"`
	Requests int    `json:"requests"`
}

type shareFacts struct {
	Shares []demoShare `json:"shares"`
	Failed []string    `json:"failed"`
}

// traceFacts are of the replay.
type traceFacts struct {
	Requests     int         `json:"requests"`
	Done         int         `json:"done"`
	Failed       []string    `json:"failed"`
	FailedCount  int         `json:"failed_count"`
	PromptTokens int         `json:"prompt_tokens"`
	FoundTokens  int         `json:"found_tokens"`  // in the prefill engines' caches
	RepeatTokens int         `json:"repeat_tokens"` // of the slice; none can find more
	Tokens       int         `json:"tokens"`
	TTFT         [2]float64  `json:"ttft_seconds_p50_p99"`
	ITL          [2]float64  `json:"itl_seconds_p50_p99"`
	Late         float64     `json:"late_seconds_p99"` // of sending
	Shares       []demoShare `json:"shares"`
	KVPeaks      []float64   `json:"kv_peaks"` // of the engines in the order of Shares; 1 is full
}

// judge returns all that was not as it must be.
func (f demoFacts) judge() []string {
	faults := []string{}
	for _, part := range [][]string{
		f.Watched.judge(), f.Same.judge("the same prompt", true), f.Short.judge("the short prompt", false),
		f.Different.judge(), f.Trace.judge(),
	} {
		faults = append(faults, part...)
	}
	for _, v := range f.Violations {
		faults = append(faults, "an engine was misused: "+v)
	}
	return faults
}

func (w watchedFacts) judge() (faults []string) {
	switch {
	case w.Failed != "":
		return []string{"the watched request failed: " + w.Failed}
	case w.PeakBlocks == 0:
		faults = append(faults, "the watched request was never seen to use KV blocks on "+w.Decode)
	}
	if w.BlocksLeft > 0 {
		faults = append(faults, fmt.Sprintf("%d KV blocks are in use after the watched request has ended", w.BlocksLeft))
	}
	return faults
}

// judge wants every request answered and, with hits, all on one pair that finds
// the prompt in its cache from the second on. Without, none may find anything.
func (s sameFacts) judge(what string, hits bool) (faults []string) {
	for i, r := range s.Requests {
		say := func(format string, args ...any) {
			faults = append(faults, fmt.Sprintf("%s, request %d: ", what, i+1)+fmt.Sprintf(format, args...))
		}
		switch expected := hits && i > 0; {
		case r.Failed != "":
			say("failed: %s", r.Failed)
		case expected && r.Found == 0:
			say("found nothing in the cache")
		case !expected && r.Found > 0:
			say("found %d tokens in the cache, where none can be", r.Found)
		case r.Told >= 0 && r.Told != r.Found:
			say("the answer tells of %d cached tokens, the engine found %d", r.Told, r.Found)
		}
	}
	for role, ids := range [][]string{s.workers(workers.Prefill), s.workers(workers.Decode)} {
		if hits && len(ids) > 1 {
			faults = append(faults, fmt.Sprintf("%s went to %d %s workers: %v", what, len(ids), workers.Role(role), ids))
		}
	}
	return faults
}

// workers returns the workers of a role that had the prompt.
func (s sameFacts) workers(role workers.Role) []string {
	ids := make([]string, 0, len(s.Requests))
	for _, r := range s.Requests {
		id := r.Prefill
		if role == workers.Decode {
			id = r.Decode
		}
		if id != "" {
			ids = append(ids, id)
		}
	}
	slices.Sort(ids)
	return slices.Compact(ids)
}

func (s shareFacts) judge() (faults []string) {
	for _, f := range s.Failed {
		faults = append(faults, "one of the different prompts failed: "+f)
	}
	for _, share := range s.Shares {
		if share.Requests == 0 {
			faults = append(faults, "none of the different prompts went to "+share.Worker)
		}
	}
	return faults
}

func (t traceFacts) judge() (faults []string) {
	if t.Done != t.Requests {
		faults = append(faults, fmt.Sprintf("of %d requests of the trace only %d were sent and ended", t.Requests, t.Done))
	}
	if t.FailedCount > 0 {
		faults = append(faults, fmt.Sprintf("%d requests of the trace failed; the first: %v", t.FailedCount, t.Failed))
	}
	return faults
}

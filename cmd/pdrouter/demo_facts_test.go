package main

import (
	"strings"
	"testing"
)

// goodFacts are those of a demo in which all was as it must be.
func goodFacts() demoFacts {
	same := sameFact{Prefill: "prefill-0", Decode: "decode-1", Found: 5888, Told: 5888}
	first := same
	first.Found, first.Told = 0, -1
	short := sameFact{Prefill: "prefill-1", Decode: "decode-0"}
	shares := []demoShare{{"prefill-0", "prefill", 16}, {"prefill-1", "prefill", 14}, {"decode-0", "decode", 11}, {"decode-1", "decode", 19}}
	return demoFacts{
		Watched:   watchedFacts{Decode: "decode-0", PeakBlocks: 942},
		Same:      sameFacts{Requests: []sameFact{first, same, same}},
		Short:     sameFacts{Requests: []sameFact{first, short, short}},
		Different: shareFacts{Shares: shares},
		Trace:     traceFacts{Requests: 10, Done: 10, Shares: shares},
	}
}

// TestJudge: what would be seen if the product were broken is told, in words
// that say what it was.
func TestJudge(t *testing.T) {
	tests := []struct {
		name  string
		spoil func(*demoFacts)
		want  string // "" is no fault
	}{
		{"all as it must be", func(*demoFacts) {}, ""},
		{"short prompts may go anywhere", func(f *demoFacts) { f.Short.Requests[1].Prefill = "prefill-0" }, ""},
		{"usage that does not tell", func(f *demoFacts) { f.Same.Requests[2].Told = -1 }, ""},
		{"random prefill", func(f *demoFacts) { f.Same.Requests[2].Prefill = "prefill-1" }, "the same prompt went to 2 prefill workers: [prefill-0 prefill-1]"},
		{"random decode", func(f *demoFacts) { f.Same.Requests[1].Decode = "decode-0" }, "the same prompt went to 2 decode workers"},
		{"a cache that finds nothing", func(f *demoFacts) { f.Same.Requests[1].Found = 0 }, "the same prompt, request 2: found nothing in the cache"},
		{"a hit before there can be one", func(f *demoFacts) { f.Same.Requests[0].Found = 128 }, "the same prompt, request 1: found 128 tokens in the cache"},
		{"a hit of less than a block", func(f *demoFacts) { f.Short.Requests[2].Found = 40 }, "the short prompt, request 3: found 40 tokens"},
		{"a hit that only the answer tells", func(f *demoFacts) { f.Short.Requests[1].Told = 40 }, "the answer tells of 40 cached tokens, the engine found 0"},
		{"a request that fails", func(f *demoFacts) { f.Same.Requests[2].Failed = "status 502" }, "the same prompt, request 3: failed: status 502"},
		{"all to one worker", func(f *demoFacts) { f.Different.Shares[3].Requests = 0 }, "none of the different prompts went to decode-1"},
		{"a different prompt that fails", func(f *demoFacts) { f.Different.Failed = []string{"status 502"} }, "one of the different prompts failed: status 502"},
		{"a watched request that fails", func(f *demoFacts) { f.Watched.Failed = "wrong answer" }, "the watched request failed: wrong answer"},
		{"KV that was never used", func(f *demoFacts) { f.Watched.PeakBlocks = 0 }, "never seen to use KV blocks on decode-0"},
		{"KV that is not given back", func(f *demoFacts) { f.Watched.BlocksLeft = 3 }, "3 KV blocks are in use after"},
		{"a request of the trace that fails", func(f *demoFacts) { f.Trace.FailedCount, f.Trace.Failed = 1, []string{"request 7: status 502"} }, "1 requests of the trace failed; the first: [request 7: status 502]"},
		{"a trace that is not played to its end", func(f *demoFacts) { f.Trace.Done = 9 }, "of 10 requests of the trace only 9"},
		{"a violation", func(f *demoFacts) { f.Violations = []string{"prefill-0: room used twice at the same time"} }, "an engine was misused: prefill-0: room used twice"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			facts := goodFacts()
			tt.spoil(&facts)
			got := facts.judge()
			if tt.want == "" {
				if len(got) > 0 {
					t.Errorf("judge() = %q, want no fault", got)
				}
				return
			}
			if len(got) != 1 || !strings.Contains(got[0], tt.want) {
				t.Errorf("judge() = %q, want one fault with %q", got, tt.want)
			}
		})
	}
}

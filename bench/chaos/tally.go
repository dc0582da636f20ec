package main

import (
	"cmp"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"sync"
	"text/tabwriter"
	"time"
)

// A tally counts how requests ended, and what befell the engines meanwhile.
type tally struct {
	mu       sync.Mutex
	outcomes map[string]int
	events   map[string]int
	good     int // requests that engines which are well would have answered with 200
	whole    int // of them, those answered so
	longest  time.Duration
}

func newTally() *tally { return &tally{outcomes: map[string]int{}, events: map[string]int{}} }

func (t *tally) event(kind string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.events[kind]++
}

func (t *tally) request(req request, outcome string, took time.Duration) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.outcomes[outcome]++
	if req.slow == 0 {
		t.longest = max(t.longest, took)
	}
	if !req.good() {
		return
	}
	t.good++
	if outcome == wholeAnswer {
		t.whole++
	}
}

// requests returns how many there were of any outcome.
func (t *tally) requests() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	n := 0
	for _, k := range t.outcomes {
		n += k
	}
	return n
}

// ratio returns the share of good requests that were answered.
func (t *tally) ratio() float64 {
	t.mu.Lock()
	defer t.mu.Unlock()
	return float64(t.whole) / float64(max(1, t.good))
}

// line is the state of things for one line of a terminal.
func (t *tally) line() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	byStatus := map[string]int{}
	n := 0
	for outcome, k := range t.outcomes {
		n += k
		if outcome[0] >= '4' && outcome[0] <= '5' {
			byStatus[outcome[:3]] += k
		}
		if strings.HasPrefix(outcome, toldInStream) {
			byStatus["broken off"] += k
		}
	}
	return fmt.Sprintf("requests %d, ok %d of %d good, errors %s, events %s", n, t.whole, t.good, inWords(byStatus), inWords(t.events))
}

// inWords writes counts in one line, in the order of their names.
func inWords(counts map[string]int) string {
	var parts []string
	for _, name := range slices.Sorted(maps.Keys(counts)) {
		parts = append(parts, fmt.Sprintf("%s %d", name, counts[name]))
	}
	return cmp.Or(strings.Join(parts, " "), "none")
}

// table writes how the requests ended, the most frequent first.
func (t *tally) table(w io.Writer) {
	t.mu.Lock()
	defer t.mu.Unlock()
	names := slices.SortedFunc(maps.Keys(t.outcomes), func(a, b string) int {
		return cmp.Or(t.outcomes[b]-t.outcomes[a], cmp.Compare(a, b))
	})
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	for _, name := range names {
		fmt.Fprintf(table, "  %s\t%d\n", name, t.outcomes[name])
	}
	_ = table.Flush() // as for any output
	fmt.Fprintf(w, "  of %d good requests %.1f %% succeeded; the longest took %v\n", t.good, 100*float64(t.whole)/float64(max(1, t.good)), t.longest.Round(time.Millisecond))
	fmt.Fprintf(w, "  events: %s\n", inWords(t.events))
}

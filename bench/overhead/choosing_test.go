package main

import (
	"fmt"
	"strings"
	"sync"
	"testing"

	"pdrouter/health"
)

// TestChoosingAllocates nothing of ours: gobreaker makes a closure for each
// outcome that it books, and a request has two.
func TestChoosingAllocates(t *testing.T) {
	if poolsForget() {
		t.Skip("under the race detector a sync.Pool forgets a quarter of what it is given")
	}
	off := health.DefaultConfig()
	off.DisableBreakers = true
	for _, c := range []struct {
		name   string
		cfg    health.Config
		policy string
		want   float64
	}{
		{"with breakers", health.DefaultConfig(), "prefix_hash", 2},
		{"without", off, "prefix_hash", 0},
		{"by the prompts' blocks", off, "cache_aware", 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			d, err := newDispatch(t.Context(), choosing{Policy: c.policy, Workers: 8}, c.cfg)
			if err != nil {
				t.Fatal(err)
			}
			defer d.registry.Close()
			for range 5 * prompts { // until the index has its size
				if err := d.next(t.Context()); err != nil {
					t.Fatal(err)
				}
			}
			got := testing.AllocsPerRun(1000, func() {
				if err := d.next(t.Context()); err != nil {
					t.Fatal(err)
				}
			})
			if got != c.want && !racing {
				t.Errorf("a request allocates %v times, want %v", got, c.want)
			}
		})
	}
}

// poolsForget reports whether what a sync.Pool is given is lost at times.
func poolsForget() bool {
	made := 0
	pool := sync.Pool{New: func() any { made++; return new(int) }}
	for range 100 {
		pool.Put(pool.Get())
	}
	return made > 10 // a collection or two are not the race detector
}

func TestChoosingIsReported(t *testing.T) {
	r := report{choosing: []choosing{{"prefix_hash", 8, 3.21, 8}, {"cache_aware", 128, 70, 60}}}
	want := "reached: choosing among 8 workers by prefix_hash, leases and breakers: 3.2 us of CPU per request, at most 8 wanted\n" +
		"missed:  choosing among 128 workers by cache_aware, leases and breakers: 70.0 us of CPU per request, at most 60 wanted"
	if got := strings.Join(r.goals(), "\n"); got != want {
		t.Errorf("goals =\n%s\nwant\n%s", got, want)
	}
}

// BenchmarkChoosing is for profiles; `make bench` has the figures.
func BenchmarkChoosing(b *testing.B) {
	for _, c := range choosingGoals() {
		b.Run(fmt.Sprintf("%s/workers=%d", c.Policy, c.Workers), func(b *testing.B) {
			d, err := newDispatch(b.Context(), c, health.DefaultConfig())
			if err != nil {
				b.Fatal(err)
			}
			defer d.registry.Close()
			b.ReportAllocs()
			for b.Loop() {
				if err := d.next(b.Context()); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

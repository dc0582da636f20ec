package workers

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"
)

// TestLeaseWaitsForBackpressure is about a role whose engines all have enough
// to do: a request waits for the first that has not.
func TestLeaseWaitsForBackpressure(t *testing.T) {
	tests := []struct {
		name   string
		before func(r *Registry) // the lease
		during func(r *Registry) // 100 ms later
		want   time.Duration
		fails  string // a part of the error
	}{
		{"the earliest bar", func(*Registry) {}, func(*Registry) {}, time.Second, ""},
		{"the later bar of the other role", func(r *Registry) {
			for _, id := range []string{"prefill-0", "prefill-1"} {
				r.Bar(worker(t, r, id), Backpressure, time.Now().Add(1500*time.Millisecond), "")
			}
		}, func(*Registry) {}, 1500 * time.Millisecond, ""},
		{"the only one that is not broken", func(r *Registry) {
			r.Bar(worker(t, r, "decode-0"), Breaking, time.Now().Add(time.Minute), "")
		}, func(*Registry) {}, 2 * time.Second, ""},
		{"a bar that is lifted meanwhile", func(*Registry) {}, func(r *Registry) {
			r.Bar(worker(t, r, "decode-1"), Backpressure, time.Time{}, "")
		}, 100 * time.Millisecond, ""},
		{"a bar that is made longer meanwhile", func(*Registry) {}, func(r *Registry) {
			r.Bar(worker(t, r, "decode-0"), Backpressure, time.Now().Add(time.Minute), "")
		}, 2 * time.Second, ""},
		{"a worker that is drained meanwhile", func(*Registry) {}, func(r *Registry) { r.Drain("decode-0") }, 2 * time.Second, ""},
		{"a worker that comes back meanwhile", func(r *Registry) {
			r.Drain("decode-1")
			r.Bar(worker(t, r, "decode-1"), Backpressure, time.Time{}, "")
		}, func(r *Registry) { r.Undrain("decode-1") }, 100 * time.Millisecond, ""},
		{"workers that break meanwhile", func(*Registry) {}, func(r *Registry) {
			r.Bar(worker(t, r, "prefill-0"), Breaking, Forever(), "")
			r.Bar(worker(t, r, "prefill-1"), Breaking, Forever(), "")
		}, 100 * time.Millisecond, "every prefill worker is left out for now (breaker)"},
		{"a role that breaks at once", func(r *Registry) {
			r.Bar(worker(t, r, "prefill-0"), Breaking, Forever(), "")
			r.Bar(worker(t, r, "prefill-1"), Stalled, Forever(), "")
		}, func(*Registry) {}, 0, "every prefill worker is left out"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := fleet(t, 2, first{})
				begin := time.Now()
				r.Bar(worker(t, r, "decode-0"), Backpressure, begin.Add(time.Second), "429")
				r.Bar(worker(t, r, "decode-1"), Backpressure, begin.Add(2*time.Second), "429")
				tt.before(r)
				time.AfterFunc(100*time.Millisecond, func() { tt.during(r) })
				var pair Pair

				err := r.Lease(t.Context(), Need{}, &pair)

				if took := time.Since(begin); took != tt.want {
					t.Errorf("Lease took %v, want %v", took, tt.want)
				}
				switch {
				case tt.fails == "" && err != nil || tt.fails != "" && (err == nil || !contains(err, tt.fails)):
					t.Errorf("Lease = %v, want %q", err, tt.fails)
				case err == nil:
					drop(&pair)
				}
				synctest.Wait()
			})
		})
	}
}

func TestLeaseWaitsNoLongerThanItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := fleet(t, 1, first{})
		r.Bar(worker(t, r, "decode-0"), Backpressure, Forever(), "429")
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()

		if err := r.Lease(ctx, Need{}, new(Pair)); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("Lease = %v, want that its time is over", err)
		}
	})
}

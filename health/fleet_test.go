package health

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"pdrouter/workers"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// A barred is one bar as the registry was told of it.
type barred struct {
	until  time.Time
	reason string
}

// A fleet is a registry that remembers what it was told, and a Judge.
type fleet struct {
	*Judge
	prefill, decode []*workers.Worker

	mu       sync.Mutex
	statuses []workers.Status
	bars     map[*workers.Worker]map[workers.Cause]barred
	pairBars map[[2]*workers.Worker]time.Time
	events   []Event
}

func newFleet(cfg Config, prefill, decode int) *fleet {
	f := &fleet{bars: map[*workers.Worker]map[workers.Cause]barred{}, pairBars: map[[2]*workers.Worker]time.Time{}}
	for i := range prefill {
		f.prefill = append(f.prefill, f.add(workers.Prefill, i))
	}
	for i := range decode {
		f.decode = append(f.decode, f.add(workers.Decode, i))
	}
	f.Judge = NewJudge(cfg, f, func(e Event) {
		f.mu.Lock()
		defer f.mu.Unlock()
		f.events = append(f.events, e)
	})
	return f
}

func (f *fleet) add(role workers.Role, i int) *workers.Worker {
	w := &workers.Worker{ID: fmt.Sprintf("%s-%d", role, i), Spec: workers.Spec{Role: role, URL: fmt.Sprintf("http://%s%d", role, i)}}
	f.statuses = append(f.statuses, workers.Status{Worker: w, State: workers.Ready})
	f.bars[w] = map[workers.Cause]barred{}
	return w
}

func (f *fleet) Statuses() []workers.Status {
	f.mu.Lock()
	defer f.mu.Unlock()
	return append([]workers.Status(nil), f.statuses...)
}

func (f *fleet) Bar(w *workers.Worker, c workers.Cause, until time.Time, reason string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if !until.IsZero() && reason == "" {
		panic("a bar without a reason")
	}
	f.bars[w][c] = barred{until, reason}
}

func (f *fleet) BarPair(prefill, decode *workers.Worker, until time.Time) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.pairBars[[2]*workers.Worker{prefill, decode}] = until
}

func (f *fleet) Complete(w *workers.Worker, pageSize int, dtype string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for i := range f.statuses {
		if f.statuses[i].Worker == w {
			f.statuses[i].Facts.PageSize, f.statuses[i].Facts.KVDtype = pageSize, dtype
		}
	}
}

// barOf returns for how long w is barred by c, 0 if it is not.
func (f *fleet) barOf(w *workers.Worker, c workers.Cause) time.Duration {
	f.mu.Lock()
	defer f.mu.Unlock()
	return max(time.Until(f.bars[w][c].until), 0)
}

func (f *fleet) reasonOf(w *workers.Worker, c workers.Cause) string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.bars[w][c].reason
}

func (f *fleet) pairBarOf(prefill, decode *workers.Worker) time.Duration {
	f.mu.Lock()
	defer f.mu.Unlock()
	return max(time.Until(f.pairBars[[2]*workers.Worker{prefill, decode}]), 0)
}

// history returns the events of a topic in words.
func (f *fleet) history(topic Topic) []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	var lines []string
	for _, e := range f.events {
		if e.Topic != topic {
			continue
		}
		name := e.Worker.ID
		if e.Decode != nil {
			name += "+" + e.Decode.ID
		}
		lines = append(lines, fmt.Sprintf("%s %s>%s", name, e.From, e.To))
	}
	return lines
}

// run sends a request to a pair and ends both legs. It fails if the request is
// not let in.
func (f *fleet) run(t *testing.T, p, d int, prefill, decode error) {
	t.Helper()
	if !f.try(p, d, prefill, decode) {
		t.Fatalf("prefill-%d and decode-%d do not let a request in", p, d)
	}
}

func (f *fleet) try(p, d int, prefill, decode error) bool {
	var permit workers.Permit
	if !f.Permit(&permit, f.prefill[p], f.decode[d]) {
		return false
	}
	f.Ended(&permit, workers.Prefill, prefill)
	f.Ended(&permit, workers.Decode, decode)
	return true
}

// open lets a request in that goes on.
func (f *fleet) open(t *testing.T, p, d int) *workers.Permit {
	t.Helper()
	permit := new(workers.Permit)
	if !f.Permit(permit, f.prefill[p], f.decode[d]) {
		t.Fatalf("prefill-%d and decode-%d do not let a request in", p, d)
	}
	return permit
}

// end ends both legs.
func (f *fleet) end(p *workers.Permit, prefill, decode error) {
	f.Ended(p, workers.Prefill, prefill)
	f.Ended(p, workers.Decode, decode)
}

func times(n int, do func()) {
	for range n {
		do()
	}
}

func sick() error { return &workers.Fault{Kind: workers.Failed, Err: errors.New("status 500")} }
func gone() error {
	return &workers.Fault{Kind: workers.Unreachable, Err: errors.New("connection refused")}
}

func untaken() error {
	return &workers.Fault{Kind: workers.HandOff, Err: errors.New("transfer failed")}
}

func busy(wait time.Duration) error {
	return &workers.Fault{Kind: workers.Busy, Wait: wait, Err: errors.New("status 429")}
}

// left is the outcome of a leg that we cancelled.
func left() error { return fmt.Errorf("read body: %w", context.Canceled) }

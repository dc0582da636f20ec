package health

import (
	"sync"
	"sync/atomic"
	"time"

	"pdrouter/workers"
)

// A ward is what is known of one worker.
type ward struct {
	worker  *workers.Worker
	breaker *breaker
	breaks  *outbox // of bars for Breaking

	// When it last did a request of ours well, and when it last gave any sign of
	// life. In nanoseconds, read and written by every request.
	good, alive atomic.Int64

	// Whether it has given a report, and why it gave none the last time; nil if
	// it was heard of since.
	reports atomic.Bool
	missed  atomic.Pointer[workers.Fault]

	// Whether its probes bar it. The Monitor sets it.
	sick   atomic.Bool
	probes *outbox

	pressure pressure
	progress progress

	mu sync.Mutex // guards the following

	// pairs are, of a prefill worker, those whose hand-off has failed once, by
	// decode worker. All others are closed and have nothing to tell.
	pairs map[*workers.Worker]*pair

	// charged are the partners with which a hand-off failed, and when it last
	// did, unless one has worked since.
	charged map[*workers.Worker]time.Time

	// used is, of a prefill worker, when a request was last let in to it
	// together with a decode worker; kept for canaries only.
	used map[*workers.Worker]time.Time

	// row counts the failed hand-offs with any partner since one worked.
	row int
}

// A pair is what is known of two workers together.
type pair struct {
	prefill, decode *workers.Worker
	breaker         *breaker
	out             *outbox
}

// ward returns that of w, made when it is first asked for.
func (j *Judge) ward(w *workers.Worker) *ward {
	if d, ok := j.wards.Load(w); ok {
		return d.(*ward)
	}
	d, _ := j.wards.LoadOrStore(w, j.newWard(w))
	return d.(*ward)
}

func (j *Judge) newWard(w *workers.Worker) *ward {
	d := &ward{
		worker:  w,
		breaks:  j.newOutbox(w, workers.Breaking),
		pairs:   map[*workers.Worker]*pair{},
		charged: map[*workers.Worker]time.Time{},
		used:    map[*workers.Worker]time.Time{},
	}
	d.alive.Store(time.Now().UnixNano())
	d.breaker = newBreaker(&j.cfg, d.breaks, Event{})
	d.pressure.out = j.newOutbox(w, workers.Backpressure)
	d.probes = j.newOutbox(w, workers.Probing)
	d.progress.out = j.newOutbox(w, workers.Stalled)
	return d
}

func (j *Judge) newOutbox(w *workers.Worker, c workers.Cause) *outbox {
	return &outbox{
		bar: func(until time.Time, reason string) { j.registry.Bar(w, c, until, reason) },
		observe: func(e Event) {
			e.Worker = w
			j.observe(e)
		},
	}
}

// pairOf returns the pair of two workers, nil if its hand-offs never failed.
func (d *ward) pairOf(decode *workers.Worker) *pair {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.pairs[decode]
}

// makePair returns the pair of two workers.
func (j *Judge) makePair(d *ward, decode *workers.Worker) *pair {
	d.mu.Lock()
	defer d.mu.Unlock()
	p := d.pairs[decode]
	if p == nil {
		prefill := d.worker
		p = &pair{prefill: prefill, decode: decode}
		p.out = &outbox{
			bar:     func(until time.Time, _ string) { j.registry.BarPair(prefill, decode, until) },
			observe: j.observe,
		}
		p.breaker = newBreaker(&j.cfg, p.out, Event{Worker: prefill, Decode: decode})
		d.pairs[decode] = p
	}
	return p
}

// live reports whether nothing is held against the worker but that it is busy.
func (d *ward) live(now time.Time) bool {
	return !d.sick.Load() && !d.progress.barred(now) && d.breaker.closed()
}

// lives notes a sign of life.
func (d *ward) lives(now time.Time) {
	d.alive.Store(now.UnixNano())
	if d.missed.Load() != nil {
		d.missed.Store(nil)
	}
	if d.progress.silent.Load() {
		d.progress.heard()
	}
}

// silence returns for how long there was no sign of life.
func (d *ward) silence(now time.Time) time.Duration {
	return now.Sub(time.Unix(0, d.alive.Load()))
}

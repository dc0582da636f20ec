package tracing

import (
	"context"
	"crypto/rand"
	"sync"
	"sync/atomic"
	"time"

	"pdrouter/record"
)

const (
	// maxWaiting is how many requests that have ended may wait for their spans to
	// be made: some MB. More than that are dropped.
	maxWaiting = 1024

	// A batch is sent when it has so many bytes, or after so long.
	batchBytes = 256 << 10
	batchTime  = time.Second

	// A batch that a collector could not take is sent again after firstPause, and
	// after twice as long each time, up to lastPause.
	firstPause = time.Second
	lastPause  = 8 * time.Second

	// maxFlush bounds how long what is left may take to be sent at the end.
	maxFlush = 5 * time.Second
)

// A Service is what the spans say of the daemon that makes them.
type Service struct {
	Version string
	Host    string // its name; empty: it is not known
	Scheme  string // by which clients come: http or https
}

// A Kind says what an Event is about.
type Kind uint8

// The kinds of events.
const (
	Away     Kind = iota // the collector takes nothing
	Back                 // it does again
	Crowded              // more requests end than can be sent
	Rejected             // it did not like some spans
)

// An Event is something about the sending of traces that an operator should know.
// None is told for each trace.
type Event struct {
	Kind Kind
	Err  error  // why; nil: there is no more to say
	Lost uint64 // Back: traces, since Away
}

// Counts says what has become of the traces so far.
type Counts struct {
	Sent    uint64
	Dropped uint64 // too many waited
	Failed  uint64 // the collector did not take them
}

// A Tracer decides which requests are traced, and sends their spans.
type Tracer struct {
	ratio  float64
	scheme string
	tell   func(Event)
	sender *sender
	queue  chan *Finished
	spare  sync.Pool // of *Finished

	counts struct{ sent, dropped, failed atomic.Uint64 }

	// The following are Run's.
	batch   batch
	pause   time.Duration // firstPause; tests wait less
	away    bool          // the collector takes nothing
	lost    uint64        // dropped and failed when it went away
	dropped uint64        // when the last batch was taken
	crowded bool          // it has been told that not all can be sent
}

// A Finished is a request that has ended and whose spans are to be made.
type Finished struct {
	record.View // to be filled in
	trace       Trace
}

// New returns a Tracer, or nil if c does not want one. What there is to say is
// told by the goroutine that calls Run. The error is one that Validate reports.
func New(c Config, s Service, tell func(Event)) (*Tracer, error) {
	if !c.Enabled {
		return nil, nil
	}
	to, err := parseEndpoint(c.Endpoint)
	if err != nil {
		return nil, err
	}
	t := &Tracer{ratio: c.Ratio, scheme: s.Scheme, tell: tell, sender: newSender(to), queue: make(chan *Finished, maxWaiting), pause: firstPause}
	t.spare.New = func() any { return new(Finished) }
	t.batch.service, t.batch.instance = s, rand.Text()
	t.batch.begin()
	return t, nil
}

// Ending returns where the record of a request that ends is to be copied, for
// Send. It is nil if the request is not traced.
func (t *Tracer) Ending(tr *Trace) *Finished {
	if t == nil || !tr.sampled() {
		return nil
	}
	f, _ := t.spare.Get().(*Finished)
	f.trace = *tr
	return f
}

// Send has the spans of a request made and sent. It does not wait: if too many
// do, the trace is dropped.
func (t *Tracer) Send(f *Finished) {
	if f == nil {
		return
	}
	select {
	case t.queue <- f:
	default:
		t.counts.dropped.Add(1)
		t.spare.Put(f)
	}
}

// Counts returns what has become of the traces so far.
func (t *Tracer) Counts() Counts {
	return Counts{Sent: t.counts.sent.Load(), Dropped: t.counts.dropped.Load(), Failed: t.counts.failed.Load()}
}

// Run sends traces until ctx ends, and then those that are left, for at most
// grace and some seconds.
func (t *Tracer) Run(ctx context.Context, grace time.Duration) error {
	defer t.sender.close()
	sending, cancel := context.WithCancel(context.WithoutCancel(ctx))
	defer cancel()
	stop := context.AfterFunc(ctx, func() {
		late := time.NewTimer(min(grace, maxFlush))
		defer late.Stop()
		select {
		case <-late.C:
			cancel()
		case <-sending.Done():
		}
	})
	defer stop()
	tick := time.NewTicker(batchTime)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			t.rest(ctx, sending)
			return nil
		case f := <-t.queue:
			t.add(f)
			if len(t.batch.b) >= batchBytes {
				t.flush(ctx, sending)
			}
		case <-tick.C:
			t.flush(ctx, sending)
		}
	}
}

// rest sends what is left.
func (t *Tracer) rest(ctx, sending context.Context) {
	for {
		select {
		case f := <-t.queue:
			t.add(f)
			if len(t.batch.b) >= batchBytes {
				t.flush(ctx, sending)
			}
		default:
			t.flush(ctx, sending)
			return
		}
	}
}

// add writes the spans of a request into the batch.
func (t *Tracer) add(f *Finished) {
	s := scribe{message: &t.batch.message, tr: &f.trace, v: &f.View, scheme: t.scheme}
	s.all()
	t.batch.traces++
	f.trace = Trace{}
	t.spare.Put(f)
}

// flush sends the batch, if there is anything in it. One that the collector could
// not take is sent again some times, unless ctx has ended, and then is lost.
func (t *Tracer) flush(ctx, sending context.Context) {
	if t.batch.traces == 0 {
		return
	}
	body := t.batch.end()
	defer t.batch.begin()
	for pause := t.pause; ; pause *= 2 {
		err := t.sender.send(sending, body)
		if err == nil {
			t.counts.sent.Add(t.batch.traces)
			t.wellSent()
			return
		}
		if rejected, ok := asRejected(err); ok {
			t.counts.sent.Add(t.batch.traces)
			t.wellSent()
			t.tell(Event{Kind: Rejected, Err: rejected})
			return
		}
		t.goesAway(err)
		if !mayPass(err) || pause > t.pause*(lastPause/firstPause) || !sleep(ctx, pause) {
			t.counts.failed.Add(t.batch.traces)
			return
		}
	}
}

func (t *Tracer) goesAway(err error) {
	if t.away {
		return
	}
	t.away, t.lost = true, t.counts.dropped.Load()+t.counts.failed.Load()
	t.tell(Event{Kind: Away, Err: err})
}

// wellSent notes that the collector took a batch.
func (t *Tracer) wellSent() {
	dropped := t.counts.dropped.Load()
	switch {
	case t.away:
		t.away = false
		t.tell(Event{Kind: Back, Lost: dropped + t.counts.failed.Load() - t.lost})
	case dropped > t.dropped && !t.crowded:
		t.crowded = true
		t.tell(Event{Kind: Crowded})
	}
	t.dropped = dropped
}

// sleep waits, and reports false if ctx ends earlier.
func sleep(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return ctx.Err() == nil
	case <-ctx.Done():
		return false
	}
}

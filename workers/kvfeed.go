package workers

import (
	"context"
	"hash/maphash"
	"slices"
	"sync/atomic"

	"golang.org/x/sync/errgroup"
)

// kvNotes counts what was heard of a worker's KV events.
type kvNotes struct {
	ranks, followed                   atomic.Int64
	stored, removed, cleared, ignored atomic.Uint64
	malformed, gaps, replayed, resets atomic.Uint64
}

func (n *kvNotes) count(t KVTally) {
	n.stored.Add(t.Stored)
	n.removed.Add(t.Removed)
	n.cleared.Add(t.Cleared)
	n.ignored.Add(t.Ignored)
}

// A KVState is what was heard of a worker's KV events since it was added.
type KVState struct {
	Ranks    int // that are to be followed; 0: the worker's events are not
	Followed int // of them, to which there is a connection

	Stored, Removed uint64 // blocks
	Cleared         uint64 // times that the engine dropped all
	Ignored         uint64 // events that are of no concern
	Malformed       uint64 // messages that could not be read, in whole or in part
	Gaps            uint64 // times that batches were missing
	Replayed        uint64 // batches that the engine sent again
	Resets          uint64 // times that what the engine holds was not known any more
}

func (n *kvNotes) state() KVState {
	return KVState{
		Ranks: int(n.ranks.Load()), Followed: int(n.followed.Load()),
		Stored: n.stored.Load(), Removed: n.removed.Load(), Cleared: n.cleared.Load(), Ignored: n.ignored.Load(),
		Malformed: n.malformed.Load(), Gaps: n.gaps.Load(), Replayed: n.replayed.Load(), Resets: n.resets.Load(),
	}
}

// A kvFeed follows the KV events of one worker, from wherever its engine
// publishes them now. It belongs to the goroutine that watches the worker.
type kvFeed struct {
	registry *Registry
	worker   *Worker
	sink     KVSink // who is told

	from []KVEndpoint
	stop context.CancelFunc
	all  errgroup.Group
}

func (r *Registry) newKVFeed(w *Worker) *kvFeed {
	return &kvFeed{registry: r, worker: w, stop: func() {}}
}

// follow begins to follow if the engine has said where, or says it anew. A
// worker that is not ready goes on being followed: its engine may be.
func (f *kvFeed) follow(ctx context.Context) {
	f.registry.mu.Lock()
	ready, from, seat := f.worker.ready, f.registry.cfg.kvEndpoints(f.worker), f.worker.load.Seat
	sink := f.registry.chosen.Load().sink
	f.registry.mu.Unlock()
	if sink == nil {
		from = nil // nobody wants to know
	}
	if !ready || slices.Equal(from, f.from) && sink == f.sink {
		return
	}
	f.close()
	f.from, f.sink = from, sink
	f.worker.kv.ranks.Store(int64(len(from)))
	ctx, f.stop = context.WithCancel(ctx)
	for _, at := range from {
		one := &kvFollower{at: at, seat: seat, sink: f.sink, note: f.worker.kv, say: f.say, seed: maphash.MakeSeed()}
		f.all.Go(func() error {
			one.run(ctx)
			return nil
		})
	}
}

// close ends what follow began.
func (f *kvFeed) close() {
	f.stop()
	_ = f.all.Wait() // nothing in the group returns an error
}

func (f *kvFeed) say(kind EventKind, reason string) {
	f.registry.mu.Lock()
	state := f.worker.state()
	f.registry.mu.Unlock()
	f.registry.observe(Event{Worker: f.worker, Kind: kind, From: state, To: state, Reason: reason})
}

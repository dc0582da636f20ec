package router

import (
	"context"
	"errors"
	"io"
	"time"

	"pdrouter/exchange"
	"pdrouter/transfer"
	"pdrouter/workers"
)

const (
	// abortTime bounds what is done to tell engines that nobody waits any more.
	abortTime = 2 * time.Second

	// abortAgain is when an engine is told once more that had not begun to
	// answer: the first word may have come before the leg itself was known to it.
	abortAgain = 200 * time.Millisecond

	// releaseTime bounds a release leg. Engines let go of blocks by themselves
	// after 30 s (vLLM's kv_lease_duration), so there is no use in more.
	releaseTime = 5 * time.Second
)

// settle tells engines what they would otherwise learn late or not at all. It
// does not wait for them.
func (a *attempt) settle() {
	a.tellEngines()
	decode := &a.legs[workers.Decode]
	refused := !decode.reached || decode.ended
	switch {
	case a.answer == nil || !a.prefillFirst() || decode.taken:
	case refused:
		a.release()
	case a.failure() != nil && a.call.r.Context().Err() == nil:
		a.h.met.Orphaned() // decode broke off: whether it had taken the blocks is not known
	}
}

// tellEngines tells every engine whose leg did not end by itself that nobody
// waits for it, where the dialect's engines have to be told.
func (a *attempt) tellEngines() {
	aborter, ok := a.dialect.(transfer.Aborter)
	if !ok {
		return
	}
	for i := range a.legs {
		l := &a.legs[i]
		if !l.reached || l.ended {
			continue
		}
		worker, began := l.lease.Worker, l.taken
		peer, legs, header := worker.Peer, aborter.Abort(a.req, a.keys), a.call.legHeader(worker, a.keys.ID)
		told := a.background(abortTime, func(ctx context.Context) {
			sendAll(ctx, peer, legs, header)
			if !began && sleep(ctx, abortAgain) {
				sendAll(ctx, peer, legs, header)
			}
		})
		if !told {
			a.h.met.Untold()
		}
	}
}

// sendAll sends legs one after another. If one fails, the engine notices the
// closed connection of its request all the same, only later.
func sendAll(ctx context.Context, to *exchange.Peer, legs []transfer.Leg, header []exchange.Field) {
	for _, leg := range legs {
		if sendAndForget(ctx, to, leg, header) != nil {
			return
		}
	}
}

// release frees the blocks that prefill holds for a decode engine that will
// not come: a decode leg of one token whose answer nobody reads, on another
// engine than the one that failed, if there is one. What cannot be freed so is
// left to the engine's own lease, and counted.
func (a *attempt) release() {
	releaser, ok := a.dialect.(transfer.Releaser)
	if !ok {
		return
	}
	written, err := releaser.Release(a.req, a.keys, a.answer)
	if err != nil || !written.HandedOff {
		return // nothing is held, or nothing that an engine could be told
	}
	held := &holding{h: a.h} // the body outlives its request, and goes on counting
	if !held.add(written.Length) {
		a.h.met.Orphaned()
		return
	}
	lease, err := a.releaseLease()
	if err != nil {
		held.release()
		a.h.met.Orphaned()
		return
	}
	a.call.keepsBody = true
	header := a.call.legHeader(lease.Worker, a.keys.ID)
	begun := a.background(releaseTime, func(ctx context.Context) {
		defer held.release()
		err := sendAndForget(ctx, lease.Worker.Peer, written, header)
		if err != nil {
			a.h.met.Orphaned()
		}
		lease.Done(err)
	})
	if !begun {
		held.release()
		lease.Done(context.Canceled)
		a.h.met.Orphaned()
	}
}

// releaseLease leases a decode worker for a release leg.
func (a *attempt) releaseLease() (*workers.Lease, error) {
	want := workers.Single{Role: workers.Decode, Model: a.req.Model(), Dialect: a.dialect.Traits().Name}
	if decode := &a.legs[workers.Decode]; decode.reached {
		want.Avoid = decode.lease.Worker
	}
	return a.h.registry.LeaseOne(context.WithoutCancel(a.ctx), want)
}

// background runs f, which outlives the attempt, for at most that long. It
// reports whether there was room for one more: a client that waits to be told
// of a failure must not wait for engines that hang.
func (a *attempt) background(limit time.Duration, f func(context.Context)) (begun bool) {
	outlive := context.WithoutCancel(a.ctx)
	return a.h.tryBackground(func() {
		ctx, cancel := context.WithTimeout(outlive, limit)
		defer cancel()
		f(ctx)
	})
}

// sendAndForget sends a leg and reads its answer to the end, so that the
// connection can be used again.
func sendAndForget(ctx context.Context, to *exchange.Peer, leg transfer.Leg, header []exchange.Field) error {
	answer, err := to.Do(ctx, &exchange.Request{Path: leg.Path, Header: header, Body: leg.Body})
	if err != nil {
		return err
	}
	defer answer.Close()
	if _, err := io.Copy(io.Discard, answer); err != nil {
		return err
	}
	if answer.Status >= 400 {
		return errors.New("the engine refused")
	}
	return nil
}

package router

import (
	"context"
	"time"

	"pdrouter/exchange"
	"pdrouter/transfer"
	"pdrouter/workers"
)

// abortTime bounds what is done to tell engines that nobody waits any more.
const abortTime = 2 * time.Second

// tellEngines tells every engine whose leg did not end by itself that nobody
// waits for it, where the dialect's engines have to be told. It does not wait.
func (a *attempt) tellEngines() {
	aborter, ok := a.dialect.(transfer.Aborter)
	if !ok {
		return
	}
	for role, lease := range [...]*workers.Lease{workers.Prefill: a.pair.Prefill, workers.Decode: a.pair.Decode} {
		if !a.open[role] {
			continue
		}
		worker, legs := lease.Worker, aborter.Abort(a.req, a.keys)
		header := a.h.legHeader(a.call.r, worker, a.keys.ID)
		a.h.background.Go(func() error {
			abort(context.WithoutCancel(a.ctx), worker, legs, header)
			return nil
		})
	}
}

// abort sends the legs to w one after another. What comes of it cannot be
// helped: the engine notices the closed connection too, only later.
func abort(ctx context.Context, w *workers.Worker, legs []transfer.Leg, header []exchange.Field) {
	ctx, cancel := context.WithTimeout(ctx, abortTime)
	defer cancel()
	for _, leg := range legs {
		answer, err := w.Peer.Do(ctx, &exchange.Request{Path: leg.Path, Header: header, Body: leg.Body})
		if err != nil {
			return
		}
		_, _ = answer.Read(make([]byte, 256)) // to its end, so that the connection is kept
		_ = answer.Close()
	}
}

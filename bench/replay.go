package bench

import (
	"cmp"
	"context"
	"strconv"
	"time"

	"golang.org/x/sync/errgroup"
)

// A Replay sends the requests of a trace when they are due.
type Replay struct {
	Client *Client

	// Speed is how many times as fast as the trace time runs. Default 1.
	Speed float64

	// MaxOpen bounds the requests that are open at a time, and with them the
	// prompts in memory. One that is due beyond it is sent late. Default 256.
	MaxOpen int

	// Name begins the id of each request; its number follows. Empty: they are
	// sent without ids.
	Name string
}

// Run sends reqs, counts what comes of them in tally, and returns when all
// have ended. If ctx ends first, the open ones are cut off, which says nothing
// of them and is not counted; its error is returned.
func (p *Replay) Run(ctx context.Context, reqs []Request, tally *Tally) error {
	var open errgroup.Group
	open.SetLimit(cmp.Or(p.MaxOpen, 256))
	began := time.Now()
	for i, req := range reqs {
		due := time.Duration(float64(req.At()) / cmp.Or(p.Speed, 1))
		if !wait(ctx, due-time.Since(began)) {
			break
		}
		open.Go(func() error {
			if ctx.Err() != nil {
				return nil // it ended while a place was waited for
			}
			lag := time.Since(began) - due
			tally.sent()
			res := p.Client.Complete(ctx, Ask{ID: p.id(i), Prompt: req.Prompt(), Tokens: req.OutputLength})
			res.Lag = max(lag, 0)
			if ctx.Err() == nil {
				tally.ended(i, res)
			}
			return nil
		})
	}
	_ = open.Wait() // a request that failed is in the tally
	return ctx.Err()
}

func (p *Replay) id(i int) string {
	if p.Name == "" {
		return ""
	}
	return p.Name + strconv.Itoa(i+1)
}

// wait waits for d, and reports whether ctx has not ended by then.
func wait(ctx context.Context, d time.Duration) bool {
	if d <= 0 {
		return ctx.Err() == nil
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}

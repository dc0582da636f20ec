package router

import (
	"context"
	"errors"
	"net/http"
	"sync"
	"time"

	"pdrouter/workers"
)

// generateTime bounds the check of a pair: SGLang itself gives up after 20 s,
// and that for either engine.
const generateTime = 45 * time.Second

// A pairCheck has one pair at a time generate. Anybody may ask for it, also
// without a key, and it costs engines something; so those who ask while a check
// is under way share it.
type pairCheck struct {
	limit time.Duration

	mu    sync.Mutex // held during a check
	ended time.Time  // when the last one had ended
	err   error      // what it said
}

// healthGenerate answers whether a pair that is ready can generate.
func (h *Handler) healthGenerate(c *call) error {
	p, arrived := &h.check, time.Now()
	p.mu.Lock()
	defer p.mu.Unlock()
	if c.r.Context().Err() != nil {
		return errClientGone
	}
	err := p.err
	if p.ended.Before(arrived) {
		err = h.generate(c, p.limit)
		if err == nil || c.r.Context().Err() == nil { // else it says nothing to others
			p.ended, p.err = time.Now(), err
		}
	}
	if err != nil {
		return err
	}
	return ok(c)
}

// generate has both engines of a pair generate, or say that they are well where
// their dialect has no more than that.
func (h *Handler) generate(c *call, limit time.Duration) error {
	ctx, cancel := context.WithTimeout(c.r.Context(), limit)
	defer cancel()
	var pair workers.Pair
	if err := h.registry.Lease(ctx, workers.Need{}, &pair); err != nil {
		return noPair(err)
	}
	prefill, decode := h.newSolo(ctx, c, &pair.Prefill), h.newSolo(ctx, c, &pair.Decode)
	defer prefill.end()
	defer decode.end()
	for _, s := range []*solo{prefill, decode} {
		if err := s.healthy(); err != nil {
			return err
		}
	}
	return nil
}

// noPair returns the error for a check that found nobody to ask. The code is
// smg's.
func noPair(err error) error {
	e := errorFor(err)
	if e.Status == http.StatusServiceUnavailable || errors.Is(err, context.DeadlineExceeded) {
		return &Error{Status: http.StatusServiceUnavailable, Code: "no_healthy_worker_pair", Message: "No pair of workers is ready.", RetryAfter: "1", Err: err}
	}
	return e
}

// healthy asks the engine whether it can generate.
func (s *solo) healthy() error {
	_, err := s.ask(http.MethodGet, "/health_generate", nil)
	e, failed := errors.AsType[*Error](err)
	switch {
	case !failed || errors.Is(e, ErrDrained):
		return err
	case e.Status == http.StatusNotImplemented:
		return e
	case s.outcome == nil && e.Status >= 500 || errors.Is(s.ctx.Err(), context.DeadlineExceeded):
		s.outcome = &workers.Fault{Kind: workers.Failed, Err: e}
	}
	return &Error{
		Status: http.StatusServiceUnavailable, Code: "health_generate_failed", Leg: s.role().String(), Err: e,
		Message: "The " + s.role().String() + " engine of a pair did not pass.",
	}
}

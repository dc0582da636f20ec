package router

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"net/http"
	"slices"
	"strings"
	"time"

	"pdrouter/metrics"
	"pdrouter/transfer"
	"pdrouter/workers"

	"go.uber.org/zap"
)

const (
	// canaryTime bounds a canary. Engines tell of a hand-off that failed after
	// 5 to 15 s, and of some not at all.
	canaryTime = time.Minute

	// The prompt of a canary has so many words at least and at most, each a
	// token or more.
	fewestWords = 32
	mostWords   = 4096
)

// forCanaries returns what c is for canaries.
func forCanaries(c Config) Config {
	c.FirstByte, c.StreamIdle = canaryTime, canaryTime
	return c
}

// Canary sends a request of one token through a pair. It is an attempt like any
// other, so that its legs are judged like any other's; but nobody asked for it,
// so it is in no metric but its own, and not in the access log. The error is that
// of a health.Send.
func (h *Handler) Canary(ctx context.Context, prefill, decode *workers.Worker) error {
	var pair workers.Pair
	if err := h.registry.LeasePair(ctx, prefill, decode, &pair); err != nil {
		return err
	}
	model := commonModel(pair.Prefill.Facts, pair.Decode.Facts)
	req, err := transfer.Parse(transfer.Completions, canaryBody(model, h.blockSize(&pair)))
	if err != nil {
		pair.Prefill.Done(context.Canceled)
		pair.Decode.Done(context.Canceled)
		return err
	}
	r := (&http.Request{Method: http.MethodPost, Header: http.Header{}, ProtoMajor: 1, ProtoMinor: 1}).WithContext(ctx)
	cfg := h.canaries.standing.Load()
	c := &call{cfg: cfg, w: newClient(nobody{}, r, cfg.ClientStall), r: r, began: time.Now(), model: model, streaming: true}
	c.rec = h.canaries.book.Begin(c.began, c.id)
	defer h.canaries.closeRecord(c)
	err = c.run(func(c *call) error { return h.canaries.attempt(c, req, &pair) }) //nolint:contextcheck // it is in the request
	result, err := c.canaryResult(err)
	h.met.CanaryEnded(result)
	h.log.Debug("canary", zap.String("prefill", c.prefill), zap.String("decode", c.decode), zap.String("model", model),
		zap.String("result", string(result)), zap.Duration("ttft", c.ttft), zap.Duration("duration", time.Since(c.began)), zap.Error(err))
	return err
}

// canaryResult says what a canary that ended with err has shown.
func (c *call) canaryResult(err error) (metrics.CanaryResult, error) {
	e, failed := errors.AsType[*Error](err)
	switch {
	case err == nil && c.aborted:
		return metrics.CanaryUnclear, errors.New("the engine aborted it")
	case err == nil:
		return metrics.CanaryOK, nil
	case failed && e.Fault != nil && e.Fault.Kind != workers.Busy:
		return metrics.CanaryFailed, e.Fault
	case failed && e.Status == http.StatusGatewayTimeout:
		return metrics.CanaryFailed, &workers.Fault{Kind: workers.HandOff, Err: e}
	default:
		return metrics.CanaryUnclear, err
	}
}

// commonModel returns the first model that both engines serve. There is one.
func commonModel(prefill, decode *workers.Facts) string {
	for _, m := range prefill.Models {
		if slices.Contains(decode.Models, m) {
			return m
		}
	}
	return ""
}

// blockSize returns the tokens of the larger of the pair's KV blocks, as far as
// the engines tell.
func (h *Handler) blockSize(pair *workers.Pair) int {
	size := 0
	for _, l := range [...]*workers.Lease{&pair.Prefill, &pair.Decode} {
		size = max(size, l.Facts.PageSize)
		if s, ok := h.registry.Get(l.Worker.ID); ok && s.Report.BlockSize > float64(size) {
			size = int(min(s.Report.BlockSize, mostWords))
		}
	}
	return size
}

// canaryBody returns the body of a canary. Its prompt is like no other from its
// first word on, so that no cache hides a hand-off that fails, and longer than
// one KV block, so that there is one to hand over.
func canaryBody(model string, blockSize int) []byte {
	words := make([]string, min(max(blockSize+1, fewestWords), mostWords))
	for i := range words {
		words[i] = rand.Text()[:4]
	}
	body, _ := json.Marshal(map[string]any{ // strings and numbers
		"model": model, "prompt": strings.Join(words, " "), "max_tokens": 1, "temperature": 0, "stream": true,
	})
	return body
}

// nobody is the client of a canary.
type nobody struct{}

// Header implements http.ResponseWriter.
func (nobody) Header() http.Header { return http.Header{} }

// WriteHeader implements http.ResponseWriter.
func (nobody) WriteHeader(int) {}

// Write implements http.ResponseWriter.
func (nobody) Write(p []byte) (int, error) { return len(p), nil }

// FlushError implements flusher.
func (nobody) FlushError() error { return nil }

package workers

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	"pdrouter/exchange"

	"golang.org/x/sync/errgroup"
)

const (
	// flushTime is how long an engine has to empty its prefix cache, as with smg.
	flushTime = 45 * time.Second

	// flushesAtOnce bounds how many engines are asked at the same time.
	flushesAtOnce = 32

	// maxRefusal bounds what is kept of an engine's words, in bytes.
	maxRefusal = 512
)

// A flusher says where engines of one kind are told to empty their prefix
// cache, and why one may not have that.
type flusher struct{ path, absent string }

// flushers returns the flushers by dialect. A new kind of engine is one line
// here.
func flushers() map[string]flusher {
	return map[string]flusher{
		"sglang":    {"/flush_cache", "the engine has none"},
		"vllm-nixl": {"/reset_prefix_cache", "the engine has it only if it was started with VLLM_SERVER_DEV_MODE=1, which is not for production"},
	}
}

// A Flushed is what came of telling one worker to empty its prefix cache.
type Flushed struct {
	Worker *Worker
	Err    error // nil: it did
}

// FlushCaches tells every worker to empty its prefix cache, and returns what
// came of it, in the order in which they were added. Workers that were removed
// are left alone. SGLang refuses while it has requests.
func (r *Registry) FlushCaches(ctx context.Context) []Flushed {
	r.mu.Lock()
	var all []Flushed
	var dialects []string
	for _, w := range r.all {
		switch {
		case w.removed:
		case w.facts == nil:
			all = append(all, Flushed{w, errors.New("it is not known yet what the engine is")})
			dialects = append(dialects, "")
		default:
			all = append(all, Flushed{Worker: w})
			dialects = append(dialects, w.facts.Dialect)
		}
	}
	r.mu.Unlock()
	var g errgroup.Group
	g.SetLimit(flushesAtOnce)
	for i := range all {
		if all[i].Err != nil {
			continue
		}
		g.Go(func() error {
			if all[i].Err = flush(ctx, all[i].Worker, dialects[i]); all[i].Err == nil {
				r.flushed(all[i].Worker)
			}
			return nil
		})
	}
	_ = g.Wait() // nothing in the group returns an error
	return all
}

// flush tells the engine of w to empty its prefix cache.
func flush(ctx context.Context, w *Worker, dialect string) error {
	f, ok := flushers()[dialect]
	if !ok {
		return fmt.Errorf("nothing is known of how engines of dialect %q empty their cache", dialect)
	}
	ctx, cancel := context.WithTimeout(ctx, flushTime)
	defer cancel()
	req := exchange.Request{Method: http.MethodPost, Path: f.path}
	if key := w.Key(); key != "" {
		req.Header = append(req.Header, exchange.Field{Name: "Authorization", Value: "Bearer " + key})
	}
	answer, err := w.Peer.Do(ctx, &req)
	if err != nil {
		return fmt.Errorf("%s: %w", f.path, plain(ctx, err))
	}
	defer answer.Close()
	words, err := io.ReadAll(io.LimitReader(answer, maxRefusal))
	switch {
	case answer.Status == http.StatusNotFound || answer.Status == http.StatusMethodNotAllowed:
		return fmt.Errorf("%s: status %d: %s", f.path, answer.Status, f.absent)
	case answer.Status/100 != 2:
		return fmt.Errorf("%s: status %d: %s", f.path, answer.Status, strings.ToValidUTF8(strings.TrimSpace(string(words)), ""))
	case err != nil:
		return fmt.Errorf("%s: %w", f.path, plain(ctx, err))
	}
	return nil
}

package workers

import (
	"context"
	"errors"
	"fmt"

	"pdrouter/exchange"
)

// A reader asks an engine of one kind how it is. With a *MetricsOffError it
// returns what there is to know all the same.
type reader func(ctx context.Context, w *Worker) (Report, error)

// readers returns the readers by dialect. A new kind of engine is one line
// here and one file.
func readers() map[string]reader {
	return map[string]reader{"sglang": readSGLang, "vllm-nixl": readVLLM}
}

// A MetricsOffError reports an engine that was started so that it tells little
// or nothing of itself. It may serve requests as well as any.
type MetricsOffError struct {
	Remedy string // how to start it instead, as in "start it with --enable-metrics"
}

// Error implements error.
func (e *MetricsOffError) Error() string { return "the engine's metrics are off; " + e.Remedy }

// poll asks the engine of w how it is, in Config.ProbeTimeout at most. What it
// returns beside an error is unknown, unless the error is a *MetricsOffError.
func (r *Registry) poll(ctx context.Context, w *Worker) (Report, error) {
	r.mu.Lock()
	facts := w.facts
	r.mu.Unlock()
	if facts == nil {
		return unknown(), errors.New("it is not known yet what the engine is")
	}
	read, ok := readers()[facts.Dialect]
	if !ok {
		return unknown(), fmt.Errorf("nothing is known of how engines of dialect %q tell of themselves", facts.Dialect)
	}
	ctx, cancel := context.WithTimeout(ctx, r.config().ProbeTimeout)
	defer cancel()
	return read(ctx, w)
}

// readMetrics fills in what the engine's /metrics tells.
func readMetrics(ctx context.Context, w *Worker, f *figures, table []reading) error {
	const path = "/metrics"
	page, err := open(ctx, w, path)
	if err != nil {
		return err
	}
	defer page.Close()
	if err := f.read(page, table); err != nil {
		if fault := new(exchange.Error); errors.As(err, &fault) {
			err = plain(ctx, err)
		}
		return fmt.Errorf("%s: %w", path, err)
	}
	return nil
}

package workers

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"

	"pdrouter/exchange"
)

// maxPageBytes bounds a page that an engine sends about itself. The largest
// seen is 100 KB, the metrics of an SGLang engine.
const maxPageBytes = 8 << 20

// errNotServed reports a page that the engine does not have.
var errNotServed = errors.New("not served")

// An identifier asks an engine of one kind what it is. It returns errNotServed
// if the engine is of another kind, and any other error if the engine is of
// this kind but not fit to be used.
type identifier func(ctx context.Context, w *Worker) (*Facts, error)

// identify finds out what the engine of w is, and that it may be used. A new
// kind of engine is one line here and one file.
func (r *Registry) identify(ctx context.Context, w *Worker) (*Facts, error) {
	for _, ask := range []identifier{identifySGLang, identifyVLLM} {
		facts, err := ask(ctx, w)
		if errors.Is(err, errNotServed) {
			continue
		}
		if err != nil {
			return facts, err
		}
		return facts, r.fits(w, facts)
	}
	if r.config().Dialect == "auto" {
		return nil, errors.New("engine not recognised: it has neither /server_info nor /version; name its dialect with --dialect")
	}
	models, err := askModels(ctx, w)
	if err != nil {
		return nil, err
	}
	facts := &Facts{Dialect: r.config().Dialect, Models: models, BootstrapHost: w.BootstrapHost, BootstrapPort: max(w.BootstrapPort, 0)}
	return facts, r.fits(w, facts)
}

// fits reports how the facts contradict the configuration, if they do. It
// completes the bootstrap address of facts.
func (r *Registry) fits(w *Worker, facts *Facts) error {
	if r.config().Dialect != "auto" && facts.Dialect != r.config().Dialect {
		return fmt.Errorf("configured with --dialect %s, but the engine speaks %s", r.config().Dialect, facts.Dialect)
	}
	if len(facts.Models) == 0 {
		return errors.New("the engine serves no model")
	}
	if w.Role == Prefill && facts.Dialect == "sglang" {
		return r.settleBootstrap(w, facts)
	}
	return nil
}

// askModels returns the names of the models that the engine serves.
func askModels(ctx context.Context, w *Worker) ([]string, error) {
	var list struct {
		Data []struct {
			ID string `json:"id"`
		} `json:"data"`
	}
	if err := askJSON(ctx, w, "/v1/models", &list); err != nil {
		return nil, err
	}
	var names []string
	for _, m := range list.Data {
		if m.ID != "" && !slices.Contains(names, m.ID) {
			names = append(names, m.ID)
		}
	}
	return names, nil
}

// askJSON fetches a page about the engine itself into v.
func askJSON(ctx context.Context, w *Worker, path string, v any) error {
	page, err := ask(ctx, w, path)
	if err != nil {
		return err
	}
	if err := json.Unmarshal(page, v); err != nil {
		return fmt.Errorf("%s: not the JSON that was expected: %w", path, err)
	}
	return nil
}

// ask fetches a page about the engine itself.
func ask(ctx context.Context, w *Worker, path string) ([]byte, error) {
	answer, err := open(ctx, w, path)
	if err != nil {
		return nil, err
	}
	defer answer.Close()
	page, err := io.ReadAll(io.LimitReader(answer, maxPageBytes+1))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, plain(ctx, err))
	}
	if len(page) > maxPageBytes {
		return nil, fmt.Errorf("%s: longer than %d bytes", path, maxPageBytes)
	}
	return page, nil
}

// open asks for a page about the engine itself. The answer is to be closed.
func open(ctx context.Context, w *Worker, path string) (*exchange.Answer, error) {
	req := exchange.Request{Method: http.MethodGet, Path: path}
	if key := w.Key(); key != "" {
		req.Header = append(req.Header, exchange.Field{Name: "Authorization", Value: "Bearer " + key})
	}
	answer, err := w.Peer.Do(ctx, &req)
	if err != nil {
		return nil, plain(ctx, err)
	}
	switch answer.Status {
	case http.StatusOK:
		return answer, nil
	case http.StatusNotFound, http.StatusMethodNotAllowed, http.StatusNotImplemented:
		err = fmt.Errorf("%s: %w", path, errNotServed)
	case http.StatusUnauthorized, http.StatusForbidden:
		err = fmt.Errorf("%s: status %d: the engine asks for a key; give it with --worker-api-key", path, answer.Status)
	default:
		err = fmt.Errorf("%s: status %d", path, answer.Status)
	}
	_, _ = io.CopyN(io.Discard, answer, 4<<10) // read to its end, so that the connection stays
	answer.Close()
	return nil, err
}

// A silence is the error of an engine that did not answer.
type silence string

// Error implements error.
func (s silence) Error() string { return string(s) }

// unanswered returns err as a fault of the engine's, if it did not answer.
func unanswered(err error) error {
	_, lost := errors.AsType[*exchange.Error](err)
	if _, quiet := errors.AsType[silence](err); quiet || lost {
		return &Fault{Kind: Unreachable, Err: err}
	}
	return err
}

// isOurs reports whether err says nothing about the engine.
func isOurs(err error) bool {
	x, ok := errors.AsType[*exchange.Error](err)
	return ok && (x.Stale || errors.Is(err, exchange.ErrTooManyConnections))
}

// plain turns what went wrong with a look into words that stay the same from
// one look to the next, so that they are logged once.
func plain(ctx context.Context, err error) error {
	switch {
	case ctx.Err() != nil:
		return silence("no answer in time")
	case strings.Contains(err.Error(), "connection refused"):
		return silence("connection refused")
	default:
		return err
	}
}

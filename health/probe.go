package health

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"

	"pdrouter/exchange"
	"pdrouter/workers"
)

// maxProbePage bounds what is read of a probe's answer, in bytes. Nothing in it
// matters; read to its end, the connection can be used again.
const maxProbePage = 64 << 10

// An answer is what a probe shows.
type answer struct {
	kind   answerKind
	told   bool   // failing: the engine itself says so
	reason string // for people; empty if all is well
}

type answerKind uint8

const (
	answering answerKind = iota // it is well, or answers at least
	failing                     // it is not well, or does not answer
	noAnswer                    // that says nothing: we gave up, or our side was short of something
)

// probe asks an engine how it is, once.
func probe(ctx context.Context, w *workers.Worker, path string) answer {
	req := exchange.Request{Method: http.MethodGet, Path: path}
	if key := w.Key(); key != "" {
		req.Header = append(req.Header, exchange.Field{Name: "Authorization", Value: "Bearer " + key})
	}
	got, err := w.Peer.Do(ctx, &req)
	if err != nil {
		return unanswered(ctx, path, err)
	}
	defer got.Close()
	if _, err := io.CopyN(io.Discard, got, maxProbePage); err != nil && !errors.Is(err, io.EOF) {
		return unanswered(ctx, path, err)
	}
	return read(got.Status, path)
}

// read judges the status of a probe's answer. What says more of our request
// than of the engine shows that the engine is alive (I7).
func read(status int, path string) answer {
	switch {
	case status >= 200 && status < 300:
		return answer{}
	case status == http.StatusUnauthorized || status == http.StatusForbidden:
		return answer{reason: fmt.Sprintf("%s: status %d: the engine asks for a key; give it with --worker-api-key", path, status)}
	case status == http.StatusNotFound || status == http.StatusMethodNotAllowed || status == http.StatusNotImplemented:
		return answer{reason: fmt.Sprintf("%s: status %d: the engine has no such page; name another with --health-check-endpoint", path, status)}
	case status == http.StatusTooManyRequests:
		return answer{}
	default:
		return answer{kind: failing, told: status >= 500, reason: fmt.Sprintf("%s: status %d", path, status)}
	}
}

// unanswered judges a probe that got no whole answer.
func unanswered(ctx context.Context, path string, err error) answer {
	x, isExchange := errors.AsType[*exchange.Error](err)
	switch {
	case errors.Is(ctx.Err(), context.Canceled), errors.Is(err, exchange.ErrTooManyConnections), errors.Is(err, exchange.ErrRequest):
		return answer{kind: noAnswer}
	case ctx.Err() != nil:
		return answer{kind: failing, reason: path + ": no answer in time"}
	case isExchange && x.Stale:
		return answer{kind: noAnswer}
	default:
		return answer{kind: failing, reason: path + ": " + brief(err)}
	}
}

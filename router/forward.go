package router

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"pdrouter/exchange"
	"pdrouter/transfer"
	"pdrouter/workers"
)

// pageTime bounds a page that an engine makes without computing anything.
const pageTime = 10 * time.Second

// servedAt returns the paths at which engines of a dialect serve what clients
// ask for at path, in the order in which they are to be tried. There are none
// if they do not serve it.
func servedAt(dialect, path string) []string {
	name := strings.TrimPrefix(path, "/v1")
	switch tokens := name == "/tokenize" || name == "/detokenize"; {
	case dialect == "sglang" && tokens:
		return []string{"/v1" + name} // since 0.5.3
	case dialect == "sglang" && strings.HasPrefix(name, "/get_"):
		return []string{"/" + strings.TrimPrefix(name, "/get_"), name} // the second until 0.5
	case dialect == "sglang" && name == "/health_generate":
		return []string{name}
	case dialect == "vllm-nixl" && tokens:
		return []string{name}
	case dialect == "vllm-nixl" && name == "/health_generate":
		return []string{"/health"}
	}
	return nil
}

// notServed answers for what engines of a dialect do not serve.
func notServed(path, dialect string) *Error {
	return &Error{
		Status: http.StatusNotImplemented, Code: "not_implemented",
		Message: fmt.Sprintf("The engines do not serve %s, dialect %s.", path, dialect),
		Header:  neverAgain(),
	}
}

// forward returns the handler of a path whose requests one worker serves whole:
// they need no KV, so nothing is handed off and nothing is written anew (I5).
func (h *Handler) forward(path string) func(*call) error {
	return func(c *call) error {
		if err := h.readBody(c); err != nil {
			return err
		}
		req, err := transfer.Parse(transfer.Chat, c.body) // only for its model
		if err != nil {
			return err
		}
		c.model = h.modelOf(req)
		want := workers.Single{Role: workers.Prefill, Model: req.Model()}
		ctx, cancel := context.WithTimeout(c.r.Context(), c.cfg.RequestTimeout)
		defer cancel()
		lease, err := h.registry.LeaseOne(ctx, want)
		if _, none := errors.AsType[*workers.NoneError](err); none {
			want.Role = workers.Decode
			if other, otherErr := h.registry.LeaseOne(ctx, want); otherErr == nil {
				lease, err = other, nil
			}
		}
		if err != nil {
			return err
		}
		s := h.newSolo(ctx, c, lease)
		defer s.end()
		answer, err := s.ask(http.MethodPost, path, c.body)
		if err != nil {
			return err
		}
		return s.relay(answer)
	}
}

// modelInfo answers with the page of the first prefill engine. It says no more
// than what the model is.
func (h *Handler) modelInfo(c *call) error {
	return h.firstPrefill(c, "/get_model_info", (*solo).relay)
}

// firstPrefill fetches the page that the first SGLang prefill engine serves for
// path, and has it answered.
func (h *Handler) firstPrefill(c *call, path string, answer func(*solo, *page) error) error {
	ctx, cancel := context.WithTimeout(c.r.Context(), pageTime)
	defer cancel()
	want := workers.Single{Role: workers.Prefill, Dialect: "sglang", First: true}
	lease, err := h.registry.LeaseOne(ctx, want)
	if _, none := errors.AsType[*workers.NoneError](err); none {
		want.Dialect = "" // another one refuses with its dialect's name
		lease, err = h.registry.LeaseOne(ctx, want)
	}
	if err != nil {
		return err
	}
	s := h.newSolo(ctx, c, lease)
	defer s.end()
	got, err := s.ask(http.MethodGet, path, nil)
	if err != nil {
		return err
	}
	return answer(s, got)
}

// A solo is one request on one worker, with nothing handed off.
type solo struct {
	h       *Handler
	call    *call
	lease   *workers.Lease
	ctx     context.Context
	held    holding // what a long answer takes
	outcome error   // as Lease.Done takes it
}

// A page is an engine's whole answer of status 200.
type page struct {
	header exchange.Header
	body   []byte
}

// newSolo returns a solo that ends with ctx at the latest. The caller ends it.
func (h *Handler) newSolo(ctx context.Context, c *call, lease *workers.Lease) *solo {
	s := &solo{h: h, call: c, lease: lease, ctx: ctx, held: holding{h: h}, outcome: context.Canceled}
	if s.role() == workers.Prefill {
		c.prefill = lease.Worker.ID
	} else {
		c.decode = lease.Worker.ID
	}
	return s
}

func (s *solo) role() workers.Role { return s.lease.Worker.Role }

// end ends the lease and gives back what the answer took.
func (s *solo) end() {
	s.held.release()
	s.lease.Done(s.outcome)
}

// ask sends a request for what clients ask for at path, and returns the answer
// if its status is 200. Any other, and none, is an error.
func (s *solo) ask(method, path string, body []byte) (*page, error) {
	for _, at := range servedAt(s.lease.Facts.Dialect, path) {
		req := exchange.Request{Method: method, Path: at, Header: s.call.legHeader(s.lease.Worker, rand.Text())}
		if body != nil {
			req.Body = [][]byte{body}
		} else {
			req.Header = slices.DeleteFunc(req.Header, func(f exchange.Field) bool { return f.Name == "Content-Type" })
		}
		answer, err := s.send(&req)
		if err != nil {
			return nil, err
		}
		got, err := s.read(answer)
		if !errors.Is(err, errNoSuchPath) {
			return got, err
		}
	}
	s.outcome = nil
	return nil, notServed(path, s.lease.Facts.Dialect)
}

// send sends a request, again if it was lost to a stale connection: no engine
// keeps anything of what is asked here.
func (s *solo) send(req *exchange.Request) (*exchange.Answer, error) {
	for tries := 1; ; tries++ {
		answer, err := s.lease.Worker.Peer.Do(s.ctx, req)
		switch {
		case err == nil:
			return answer, nil
		case !isStale(err) || tries >= maxStale || s.ctx.Err() != nil:
			return nil, s.failed(err)
		}
	}
}

// errNoSuchPath reports that an engine does not have the path that it was asked
// for.
var errNoSuchPath = errors.New("no such path")

// read reads an answer to its end. Whatever an engine says of a request, it does
// its job: it also answers 500 to tokens that there are not.
func (s *solo) read(answer *exchange.Answer) (*page, error) {
	defer answer.Close()
	if answer.Status != http.StatusOK {
		body, err := io.ReadAll(io.LimitReader(answer, maxErrorBytes))
		if err != nil {
			return nil, s.failed(err)
		}
		s.outcome = nil
		if isNoSuchPath(answer.Status, body) {
			return nil, errNoSuchPath
		}
		return nil, s.h.engineError(s.role(), transfer.ParseError(answer.Status, body), answer.Header.Get("Retry-After"))
	}
	body, whole, err := s.h.readWhole(answer, s.call.cfg.MaxAnswerBytes, &s.held)
	if err != nil {
		return nil, s.failed(err)
	}
	s.outcome = nil
	if !whole {
		return nil, s.call.cfg.answerTooLong(s.role())
	}
	s.h.met.Upstream(answer.Status, "")
	return &page{answer.Header, body}, nil
}

// isNoSuchPath tells FastAPI's answer to a path that it does not know from an
// engine's to a model that it does not serve.
func isNoSuchPath(status int, body []byte) bool {
	var said struct {
		Detail string `json:"detail"`
	}
	switch status {
	case http.StatusNotFound:
		return json.Unmarshal(body, &said) == nil && said.Detail == "Not Found"
	case http.StatusMethodNotAllowed:
		return true
	}
	return false
}

// failed classifies what went wrong between us and the worker. As with legs,
// the context is asked first.
func (s *solo) failed(err error) error {
	s.outcome = context.Canceled
	switch {
	case s.ctx.Err() == nil:
		e := brokenOff(s.role(), err)
		if e.Fault != nil {
			s.outcome = e.Fault
		}
		return e
	case drained(s.ctx):
		return shuttingDown()
	case s.call.r.Context().Err() != nil:
		return errClientGone
	default:
		return &Error{
			Status: http.StatusGatewayTimeout, Code: "request_timeout", Leg: s.role().String(),
			Message: "The " + s.role().String() + " engine did not answer in time.",
		}
	}
}

// relay passes an answer on, which must be JSON.
func (s *solo) relay(answer *page) error {
	if !json.Valid(answer.body) {
		return s.nonsense(errors.New("not JSON"))
	}
	head := s.call.w.Header()
	relayHeader(head, answer.header)
	head.Set("Content-Type", "application/json")
	head.Set("Content-Length", strconv.Itoa(len(answer.body)))
	s.call.w.WriteHeader(http.StatusOK)
	if _, err := s.call.w.Write(answer.body); err != nil {
		return errClientGone
	}
	s.h.memory.put(answer.body)
	return nil
}

// nonsense returns the error for a 200 that is no answer.
func (s *solo) nonsense(err error) error {
	e := nonsense(s.role(), err)
	s.outcome = &workers.Fault{Kind: workers.Failed, Err: e}
	return e
}

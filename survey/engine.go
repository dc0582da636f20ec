package survey

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"time"
)

// maxPage bounds a page of an engine, in bytes.
const maxPage = 8 << 20

// The kinds of engines.
const (
	SGLang = "sglang"
	VLLM   = "vllm"
)

// An Engine is what an engine says of itself.
type Engine struct {
	Kind    string // SGLang or VLLM
	Version string

	// Role is prefill or decode; null if it does neither only; empty if it does
	// not tell, as vLLM.
	Role string

	Models   []string
	PageSize int    // tokens
	KVDtype  string // of its KV cache
	Dtype    string // of the model
	TP, DP   int    // ranks of tensor and data parallelism
	Backend  string // what hands over

	// HandsOver reports whether it was started so that it hands over at all.
	HandsOver bool

	// Metrics reports whether it has metrics of its own.
	Metrics bool

	// Handoffs is how many hand-offs it has done or fetched; -1: it does not tell.
	Handoffs float64

	// BootstrapHost and BootstrapPort are where SGLang's prefill engines listen
	// for decode engines.
	BootstrapHost string
	BootstrapPort int

	// Ahead is by how much its clock is ahead of ours, give or take half a second.
	// It is known if Clocked.
	Ahead   time.Duration
	Clocked bool
}

// A Place is where an engine is asked, and with which key.
type Place struct {
	Client *http.Client
	Base   string // http://host:port, without a slash behind it
	Key    string
}

// NewPlace returns the place of a worker's URL: http, https or unix:/path. Its
// connections are to be closed by Client.CloseIdleConnections.
func NewPlace(url, key string, transport *http.Transport) Place {
	p := Place{Client: &http.Client{Transport: transport}, Base: strings.TrimSuffix(url, "/"), Key: key}
	if path, is := strings.CutPrefix(url, "unix:"); is {
		p.Base = "http://engine"
		transport.DialContext = func(ctx context.Context, _, _ string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, "unix", path)
		}
	}
	return p
}

// errNotServed reports a page that an engine does not have.
var errNotServed = errors.New("not served")

// ErrUnknown reports an engine, or another server, of a kind that is not known.
var ErrUnknown = errors.New("it answers, but is no engine that is known: it has neither SGLang's /server_info nor vLLM's /version")

// A StatusError is an engine's refusal to tell.
type StatusError struct {
	Path   string
	Status int
}

// Error implements error.
func (e *StatusError) Error() string { return fmt.Sprintf("%s: status %d", e.Path, e.Status) }

// Ask asks the engine at p what it is.
func Ask(ctx context.Context, p Place) (*Engine, error) {
	e, err := askSGLang(ctx, p)
	if errors.Is(err, errNotServed) {
		e, err = askVLLM(ctx, p)
	}
	if errors.Is(err, errNotServed) {
		return nil, ErrUnknown
	}
	if err != nil {
		return nil, err
	}
	var list struct {
		Data []struct {
			ID string `json:"id"`
		} `json:"data"`
	}
	if err := p.getJSON(ctx, "/v1/models", &list, e); err != nil && !errors.Is(err, errNotServed) {
		return nil, err
	}
	for _, m := range list.Data {
		e.Models = append(e.Models, m.ID)
	}
	return e, nil
}

// getJSON fetches a page into v, and notes the clock of who answers in e.
func (p Place) getJSON(ctx context.Context, path string, v any, e *Engine) error {
	page, err := p.get(ctx, path, e)
	if err != nil {
		return err
	}
	if err := json.Unmarshal(page, v); err != nil {
		return fmt.Errorf("%s: not the JSON that was expected: %w", path, err)
	}
	return nil
}

func (p Place) get(ctx context.Context, path string, e *Engine) ([]byte, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, p.Base+path, http.NoBody)
	if err != nil {
		return nil, err
	}
	if p.Key != "" {
		req.Header.Set("Authorization", "Bearer "+p.Key)
	}
	began := time.Now()
	resp, err := p.Client.Do(req)
	if err != nil {
		return nil, plain(ctx, err)
	}
	defer resp.Body.Close()
	e.clock(resp.Header.Get("Date"), began, time.Now())
	switch resp.StatusCode {
	case http.StatusOK:
		return io.ReadAll(io.LimitReader(resp.Body, maxPage))
	case http.StatusNotFound, http.StatusMethodNotAllowed, http.StatusNotImplemented:
		_, _ = io.CopyN(io.Discard, resp.Body, maxPage)
		return nil, errNotServed
	}
	return nil, &StatusError{path, resp.StatusCode}
}

// clock notes what the Date of an answer says that was asked for and came at
// these times. A Date has whole seconds.
func (e *Engine) clock(date string, began, ended time.Time) {
	at, err := http.ParseTime(date)
	if err != nil {
		return
	}
	ours := began.Add(ended.Sub(began) / 2)
	e.Ahead, e.Clocked = at.Add(500*time.Millisecond).Sub(ours), true
}

// plain says in few words why nobody answers.
func plain(ctx context.Context, err error) error {
	switch {
	case errors.Is(ctx.Err(), context.DeadlineExceeded):
		return errors.New("no answer in time")
	case strings.Contains(err.Error(), "connection refused"):
		return errors.New("connection refused")
	}
	if inner := errors.Unwrap(err); inner != nil {
		return inner // without method and URL
	}
	return err
}

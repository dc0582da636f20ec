package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"time"
)

// bound is how long a request may take that nobody reads slowly, whatever
// befalls the engines: the router's own limits are well below it.
const bound = 15 * time.Second

// slowBound is the same for a client that takes its time.
const slowBound = 90 * time.Second

var (
	errLeft = errors.New("the client has left")
	errHung = errors.New("there is no end to it")
)

// A crowd is clients that share what they know.
type crowd struct {
	base   string // URL of the router
	client *http.Client
	tally  *tally
	faults *faults
}

func newCrowd(base string, clients int, t *tally, f *faults) *crowd {
	transport := &http.Transport{MaxIdleConnsPerHost: clients, DisableCompression: true}
	return &crowd{base: base, client: &http.Client{Transport: transport}, tally: t, faults: f}
}

// play sends one request and judges what comes. It reports whether that was the
// whole answer.
func (c *crowd) play(ctx context.Context, id string, req request) bool {
	if req.cut {
		c.breakOff(ctx, req)
		c.tally.request(req, clientLeft, 0)
		return false
	}
	began := time.Now()
	got := c.send(ctx, id, req)
	got.took = time.Since(began)
	if ctx.Err() != nil {
		return false // we are stopped
	}
	outcome, err := req.judge(got)
	if err != nil {
		c.faults.add("request %s: %w\n%v\nanswer: %v", id, err, req, got)
		outcome = "WRONG"
	}
	c.tally.request(req, outcome, got.took)
	return outcome == wholeAnswer
}

// send sends one request, and leaves when it is time.
func (c *crowd) send(ctx context.Context, id string, req request) (got reply) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	limit := bound
	if req.slow > 0 {
		limit = slowBound
	}
	defer time.AfterFunc(limit, func() { cancel(errHung) }).Stop()
	if req.leaves > 0 {
		defer time.AfterFunc(req.leaves, func() { cancel(errLeft) }).Stop()
	}
	defer func() {
		got.left = errors.Is(context.Cause(ctx), errLeft)
		got.hung = errors.Is(context.Cause(ctx), errHung)
	}()
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, c.base+req.path, strings.NewReader(req.body))
	if err != nil {
		return reply{err: err}
	}
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("X-Request-Id", id)
	resp, err := c.client.Do(r)
	if err != nil {
		return reply{err: err}
	}
	defer resp.Body.Close()
	body, err := readAll(resp.Body, req.slow)
	if got := resp.Header.Get("X-Request-Id"); got != id && err == nil {
		err = fmt.Errorf("this is the answer to %q", got)
	}
	return reply{status: resp.StatusCode, code: resp.Header.Get("X-SMG-Error-Code"), body: body, err: err}
}

// readAll reads an answer, a few bytes at a time if the client is slow.
func readAll(body io.Reader, slow time.Duration) (string, error) {
	if slow == 0 {
		b, err := io.ReadAll(body)
		return string(b), err
	}
	var all strings.Builder
	few := make([]byte, 1024)
	for {
		n, err := body.Read(few)
		all.Write(few[:n])
		if errors.Is(err, io.EOF) {
			return all.String(), nil
		}
		if err != nil {
			return all.String(), err
		}
		time.Sleep(slow)
	}
}

// breakOff sends half of a request and closes the connection.
func (c *crowd) breakOff(ctx context.Context, req request) {
	conn, err := new(net.Dialer).DialContext(ctx, "tcp", strings.TrimPrefix(c.base, "http://"))
	if err != nil {
		c.faults.add("the router takes no connection: %w", err)
		return
	}
	defer conn.Close()
	// Whether the router takes it all does not matter.
	_, _ = fmt.Fprintf(conn, "POST %s HTTP/1.1\r\nHost: chaos\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s",
		req.path, len(req.body), req.body[:len(req.body)/2])
}

package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"
)

// The roles.
const (
	prefill = "prefill"
	decode  = "decode"
)

// counts are the legs that the engines have answered.
type counts struct {
	Prefill, Decode int64 // with hand-off keys
	Plain           int64 // decode legs without
}

// A fleet is all engines of one process.
type fleet struct {
	dialect  string
	answers  map[string]reply // of decode, by workload
	pace     map[string]time.Duration
	prefill  [2]reply // not streamed, streamed
	legs     [2]atomic.Int64
	unhanded atomic.Int64
}

func newFleet(dialect string) *fleet {
	f := &fleet{dialect: dialect, answers: map[string]reply{}, pace: map[string]time.Duration{}}
	for _, w := range workloads() {
		f.answers[w.name], f.pace[w.name] = w.decodeReply(), w.every
	}
	f.prefill = [2]reply{prefillReply(dialect, false), prefillReply(dialect, true)}
	return f
}

// serve runs an engine of one role until ctx ends.
func (f *fleet) serve(ctx context.Context, ln net.Listener, role string) error {
	defer context.AfterFunc(ctx, func() { _ = ln.Close() })()
	var g errgroup.Group
	for {
		conn, err := ln.Accept()
		if err != nil {
			_ = g.Wait() // no connection returns an error
			if ctx.Err() != nil {
				return nil
			}
			return fmt.Errorf("accept: %w", err)
		}
		g.Go(func() error {
			defer context.AfterFunc(ctx, func() { _ = conn.Close() })()
			defer conn.Close()
			f.converse(conn, role)
			return nil
		})
	}
}

// converse answers the requests of one connection, until it ends.
func (f *fleet) converse(conn net.Conn, role string) {
	in := bufio.NewReader(conn)
	var body []byte // memory, used again
	for {
		req, err := http.ReadRequest(in)
		if err != nil || req.ContentLength < 0 {
			return
		}
		if n := int(req.ContentLength); n > cap(body) {
			body = make([]byte, n)
		}
		body = body[:req.ContentLength]
		if _, err := io.ReadFull(req.Body, body); err != nil {
			return
		}
		if f.respond(conn, role, req, body) != nil {
			return
		}
	}
}

// respond answers one request.
func (f *fleet) respond(conn net.Conn, role string, req *http.Request, body []byte) error {
	if req.URL.Path == "/counts" {
		text, err := json.Marshal(counts{f.legs[0].Load(), f.legs[1].Load(), f.unhanded.Load()})
		return errors.Join(err, whole(string(text)).write(conn, 0))
	}
	if text, ok := page(f.dialect, role, req.URL.Path); ok {
		return whole(text).write(conn, 0)
	}
	if req.URL.Path != "/v1/chat/completions" {
		_, err := io.WriteString(conn, "HTTP/1.1 404 Not Found\r\ncontent-length: 0\r\n\r\n")
		return err
	}
	front, back := body[:min(256, len(body))], body[max(0, len(body)-1024):]
	if !bytes.Contains(front, []byte(`"user":"`)) { // the body was made anew, with its keys in another order
		front, back = body, body
	}
	if !bytes.Contains(back, f.key()) {
		f.unhanded.Add(1)
	} else if role == prefill {
		f.legs[0].Add(1)
	} else {
		f.legs[1].Add(1)
	}
	if role == prefill {
		streamed := 0
		if bytes.Contains(front, []byte(`"stream":true`)) && !bytes.Contains(back, []byte(`"stream":false`)) { // the last one counts
			streamed = 1
		}
		return f.prefill[streamed].write(conn, 0)
	}
	name := naming(front)
	return f.answers[name].write(conn, f.pace[name])
}

// key is what a leg that is handed off has in its body.
func (f *fleet) key() []byte {
	if f.dialect == vllmNIXL {
		return []byte(`"kv_transfer_params":`)
	}
	return []byte(`"bootstrap_room":`)
}

// naming returns the name of the workload that a body belongs to.
func naming(front []byte) string {
	if _, rest, ok := bytes.Cut(front, []byte(`"user":"`)); ok {
		name, _, _ := bytes.Cut(rest, []byte(`"`))
		return string(name)
	}
	_, rest, _ := bytes.Cut(front, []byte(`"content":"`)) // some routers leave out what they do not know
	name, _, _ := bytes.Cut(rest, []byte(` `))
	return string(name)
}

// write sends r, one chunk every interval, or as fast as they are taken.
func (r reply) write(conn net.Conn, every time.Duration) error {
	if _, err := conn.Write(r.first); err != nil {
		return err
	}
	var tick *time.Ticker
	if every > 0 {
		tick = time.NewTicker(every)
		defer tick.Stop()
	}
	for range r.times {
		if tick != nil {
			<-tick.C
		}
		if _, err := conn.Write(r.chunk); err != nil {
			return err
		}
	}
	if len(r.rest) == 0 {
		return nil
	}
	_, err := conn.Write(r.rest)
	return err
}

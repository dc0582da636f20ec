package main

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"log"
	"maps"
	"math/rand/v2"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
)

// A pooledProxy is the bare floor: net/http before it, and each leg written
// straight to a pooled connection that the request's goroutine owns, head, body
// and keys by one writev. The answer's head is read by http.ReadResponse. It
// knows one dialect, SGLang's, and trusts engines with everything: it does not
// find a stale connection, an answer in time, or a client that has left.
type pooledProxy struct {
	prefills, decodes []*pool
	turn              atomic.Uint64
	buffers           sync.Pool // of *[]byte, for copying
}

// A pool is the idle connections to one engine, the last used one first.
type pool struct {
	addr string
	mu   sync.Mutex
	idle []*pooledConn
}

type pooledConn struct {
	net.Conn
	r *bufio.Reader
}

func newPooled(prefills, decodes []string) *pooledProxy {
	p := &pooledProxy{buffers: newBuffers()}
	for _, addr := range prefills {
		p.prefills = append(p.prefills, &pool{addr: addr})
	}
	for _, addr := range decodes {
		p.decodes = append(p.decodes, &pool{addr: addr})
	}
	return p
}

func (p *pool) get() (*pooledConn, error) {
	p.mu.Lock()
	if n := len(p.idle); n > 0 {
		c := p.idle[n-1]
		p.idle = p.idle[:n-1]
		p.mu.Unlock()
		return c, nil
	}
	p.mu.Unlock()
	conn, err := net.Dial("tcp", p.addr) //nolint:noctx // it is loopback
	if err != nil {
		return nil, err
	}
	return &pooledConn{conn, bufio.NewReader(conn)}, nil
}

func (p *pool) put(c *pooledConn) {
	p.mu.Lock()
	p.idle = append(p.idle, c)
	p.mu.Unlock()
}

// ServeHTTP implements http.Handler.
func (p *pooledProxy) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body := make([]byte, max(0, r.ContentLength))
	if _, err := io.ReadFull(r.Body, body); err != nil || !bytes.HasSuffix(body, []byte("}")) {
		http.Error(w, "bad body", http.StatusBadRequest)
		return
	}
	keys := fmt.Appendf(nil, sglangKeys+"}", rand.Uint64()>>1)
	turn := p.turn.Add(1)
	prefill, decode := p.prefills[turn%uint64(len(p.prefills))], p.decodes[turn%uint64(len(p.decodes))]
	first, err := prefill.send(r.URL.Path, body[:len(body)-1], keys)
	if err == nil {
		err = p.hand(w, decode, r.URL.Path, body[:len(body)-1], keys)
		err = errors.Join(err, p.read(prefill, first))
	}
	if err != nil {
		log.Print(err)
		panic(http.ErrAbortHandler)
	}
}

// send writes a leg to a connection.
func (p *pool) send(path string, body, keys []byte) (*pooledConn, error) {
	c, err := p.get()
	if err != nil {
		return nil, err
	}
	head := fmt.Appendf(make([]byte, 0, 256), "POST %s HTTP/1.1\r\nHost: %s\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n", path, p.addr, len(body)+len(keys))
	all := net.Buffers{head, body, keys}
	if _, err := all.WriteTo(c.Conn); err != nil {
		c.Close()
		return nil, err
	}
	return c, nil
}

// hand sends the leg to decode and copies its answer to the client.
func (p *pooledProxy) hand(w http.ResponseWriter, decode *pool, path string, body, keys []byte) error {
	c, err := decode.send(path, body, keys)
	if err != nil {
		return err
	}
	answer, err := http.ReadResponse(c.r, nil)
	if err != nil {
		c.Close()
		return err
	}
	defer answer.Body.Close()
	buf := p.buffers.Get().(*[]byte)
	defer p.buffers.Put(buf)
	maps.Copy(w.Header(), answer.Header)
	if err := relay(w, answer.StatusCode, answer.Body, *buf); err != nil {
		c.Close()
		return err
	}
	decode.put(c)
	return nil
}

// read reads prefill's answer to its end.
func (p *pooledProxy) read(prefill *pool, c *pooledConn) error {
	answer, err := http.ReadResponse(c.r, nil)
	if err != nil {
		c.Close()
		return err
	}
	defer answer.Body.Close()
	if _, err := io.Copy(io.Discard, answer.Body); err != nil || answer.StatusCode != http.StatusOK {
		c.Close()
		return errors.Join(err, fmt.Errorf("status %d from %s", answer.StatusCode, prefill.addr))
	}
	prefill.put(c)
	return nil
}

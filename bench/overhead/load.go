package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"
)

// patience is how long one run may take in all.
const patience = 2 * time.Minute

// A load is clients that each send one request after another over one
// connection. They wait on the goroutine that reads, so that they cost little.
type load struct {
	clients []*client
	sent    atomic.Int64
}

func newLoad(ctx context.Context, addr string, w workload, clients int) (*load, error) {
	l := &load{}
	for i := range clients {
		c, err := newClient(ctx, addr, w, i)
		if err != nil {
			l.close()
			return nil, err
		}
		l.clients = append(l.clients, c)
	}
	return l, nil
}

func (l *load) close() {
	for _, c := range l.clients {
		_ = c.conn.Close()
	}
}

// run has every client send requests for as long as more says so, given how
// many were sent before, and returns how long each took, sorted.
func (l *load) run(more func(sent int) bool) ([]time.Duration, error) {
	l.sent.Store(0)
	l.forget()
	took := make([][]time.Duration, len(l.clients))
	var g errgroup.Group
	for i, c := range l.clients {
		_ = c.conn.SetDeadline(time.Now().Add(patience)) // a socket that is closed says so when it is used
		g.Go(func() error {
			for more(int(l.sent.Add(1) - 1)) {
				began := time.Now()
				if err := c.once(); err != nil {
					return err
				}
				took[i] = append(took[i], time.Since(began))
			}
			return nil
		})
	}
	if err := g.Wait(); err != nil {
		return nil, err
	}
	all := slices.Concat(took...)
	slices.Sort(all)
	return all, nil
}

// A client sends the same request again and again.
type client struct {
	conn    net.Conn
	in      *bufio.Reader
	request []byte
	want    int       // length of the answer's body
	paced   bool      // chunks come one by one: what is between them is of interest
	buf     []byte    // memory, used again
	stream  io.Reader // set by open

	first []time.Duration // from each request to the first byte of its answer's body
	gaps  []time.Duration // between reads, if paced
}

func newClient(ctx context.Context, addr string, w workload, seed int) (*client, error) {
	var dialer net.Dialer
	conn, err := dialer.DialContext(ctx, "tcp", addr)
	if err != nil {
		return nil, err
	}
	return &client{
		conn: conn, in: bufio.NewReader(conn), buf: make([]byte, 4<<10),
		request: w.request(addr, seed), want: w.bodySize(), paced: w.every > 0,
	}, nil
}

// once sends the request and reads the answer to its end.
func (c *client) once() error {
	last := time.Now()
	answer, err := c.begin()
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	n := 0
	for err == nil {
		var read int
		read, err = answer.Body.Read(c.buf)
		if n == 0 || c.paced {
			last = c.note(n == 0, last)
		}
		n += read
	}
	if !errors.Is(err, io.EOF) {
		return fmt.Errorf("read answer: %w", err)
	}
	if n != c.want {
		return fmt.Errorf("answer has %d bytes, want %d", n, c.want)
	}
	return nil
}

// note keeps the time since last and returns the present.
func (c *client) note(first bool, last time.Time) time.Time {
	now := time.Now()
	if first {
		c.first = append(c.first, now.Sub(last))
	} else {
		c.gaps = append(c.gaps, now.Sub(last))
	}
	return now
}

// begin sends the request and reads the head of the answer.
func (c *client) begin() (*http.Response, error) {
	if _, err := c.conn.Write(c.request); err != nil {
		return nil, fmt.Errorf("write request: %w", err)
	}
	answer, err := http.ReadResponse(c.in, nil)
	if err != nil {
		return nil, fmt.Errorf("read answer: %w", err)
	}
	if answer.StatusCode != http.StatusOK {
		defer answer.Body.Close()
		n, _ := answer.Body.Read(c.buf) // whatever there is of an explanation
		return nil, fmt.Errorf("status %d: %s", answer.StatusCode, c.buf[:n])
	}
	return answer, nil
}

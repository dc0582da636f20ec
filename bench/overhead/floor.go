package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"math/rand/v2"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"

	"pdrouter/exchange"

	"golang.org/x/sync/errgroup"
)

// A floorProxy is the two-leg proxy with its legs sent through exchange: what
// is left of the router when it only hands off. It knows one dialect, SGLang's.
type floorProxy struct {
	prefills, decodes []*exchange.Peer
	turn              atomic.Uint64
	buffers           sync.Pool // of *[]byte, for copying
}

func newFloor(prefills, decodes []string) (*floorProxy, error) {
	p := &floorProxy{buffers: newBuffers()}
	for i, addr := range append(slices.Clip(prefills), decodes...) {
		peer, err := exchange.NewPeer("http://"+addr, exchange.DefaultConfig())
		if err != nil {
			return nil, err
		}
		if i < len(prefills) {
			p.prefills = append(p.prefills, peer)
		} else {
			p.decodes = append(p.decodes, peer)
		}
	}
	return p, nil
}

// ServeHTTP implements http.Handler.
func (p *floorProxy) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body := make([]byte, max(0, r.ContentLength))
	if _, err := io.ReadFull(r.Body, body); err != nil || !bytes.HasSuffix(body, []byte("}")) {
		http.Error(w, "bad body", http.StatusBadRequest)
		return
	}
	leg := &exchange.Request{
		Path:   r.URL.Path,
		Header: []exchange.Field{{Name: "Content-Type", Value: "application/json"}},
		Body:   [][]byte{body[:len(body)-1], fmt.Appendf(nil, sglangKeys+"}", rand.Uint64()>>1)},
	}
	turn := p.turn.Add(1)
	// A client that has its answer may leave before prefill's has been read.
	g, ctx := errgroup.WithContext(context.WithoutCancel(r.Context()))
	g.Go(func() error { return p.read(ctx, p.prefills[turn%uint64(len(p.prefills))], leg) })
	err := p.relay(ctx, w, p.decodes[turn%uint64(len(p.decodes))], leg)
	if err = errors.Join(err, g.Wait()); err != nil {
		log.Print(err)
		panic(http.ErrAbortHandler)
	}
}

// read sends a leg and reads its answer.
func (p *floorProxy) read(ctx context.Context, peer *exchange.Peer, leg *exchange.Request) error {
	answer, err := peer.Do(ctx, leg)
	if err != nil {
		return err
	}
	defer answer.Close()
	buf := p.buffers.Get().(*[]byte)
	defer p.buffers.Put(buf)
	for err == nil {
		_, err = answer.Read(*buf)
	}
	if errors.Is(err, io.EOF) {
		return nil
	}
	return err
}

// relay sends a leg and copies its answer to the client.
func (p *floorProxy) relay(ctx context.Context, w http.ResponseWriter, peer *exchange.Peer, leg *exchange.Request) error {
	answer, err := peer.Do(ctx, leg)
	if err != nil {
		return err
	}
	defer answer.Close()
	buf := p.buffers.Get().(*[]byte)
	defer p.buffers.Put(buf)
	for _, f := range answer.Header {
		w.Header().Add(f.Name, f.Value)
	}
	return relay(w, answer.Status, answer, *buf)
}

package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log"
	"maps"
	"math/rand/v2"
	"net/http"
	"sync"
	"sync/atomic"

	"golang.org/x/sync/errgroup"
)

// A twoLegProxy is the least that hands off over http.Transport: no check, no
// policy, no metrics, no log. It is what an afternoon's script would be.
type twoLegProxy struct {
	transport         *http.Transport
	dialect           string
	prefills, decodes []string // host:port
	turn              atomic.Uint64
	buffers           sync.Pool // of *[]byte, for copying
}

func newTwoLeg(dialect string, prefills, decodes []string) *twoLegProxy {
	return &twoLegProxy{
		transport: newTransport(), dialect: dialect, prefills: prefills, decodes: decodes,
		buffers: newBuffers(),
	}
}

// ServeHTTP implements http.Handler.
func (p *twoLegProxy) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body := make([]byte, max(0, r.ContentLength), max(0, r.ContentLength)+1024) // with room for the keys
	if _, err := io.ReadFull(r.Body, body); err != nil || !bytes.HasSuffix(body, []byte("}")) {
		http.Error(w, "bad body", http.StatusBadRequest)
		return
	}
	turn := p.turn.Add(1)
	prefill, decode := p.prefills[turn%uint64(len(p.prefills))], p.decodes[turn%uint64(len(p.decodes))]
	hand := p.concurrent
	if p.dialect == vllmNIXL {
		hand = p.inTurn
	}
	if err := hand(r.Context(), w, leg{prefill, r.URL.Path, body}, leg{decode, r.URL.Path, body}); err != nil {
		log.Print(err)
		panic(http.ErrAbortHandler)
	}
}

// A leg is what goes to one engine.
type leg struct {
	host, path string
	body       []byte
}

// with returns l with keys before the brace that ends its body. It may write
// to the memory behind the body.
func (l leg) with(keys []byte) leg {
	l.body = append(append(l.body[:len(l.body)-1], keys...), '}')
	return l
}

// sglangKeys are what a leg to SGLang ends with.
const sglangKeys = `,"bootstrap_host":"127.0.0.1","bootstrap_port":8998,"bootstrap_room":%d`

// concurrent hands off as SGLang does.
func (p *twoLegProxy) concurrent(ctx context.Context, w http.ResponseWriter, prefill, decode leg) error {
	prefill = prefill.with(fmt.Appendf(nil, sglangKeys, rand.Uint64()>>1))
	decode.body = prefill.body
	// A client that has its answer may leave before prefill's has been read.
	g, ctx := errgroup.WithContext(context.WithoutCancel(ctx))
	g.Go(func() error {
		_, err := p.read(ctx, prefill)
		return err
	})
	err := p.relay(ctx, w, decode)
	return errors.Join(err, g.Wait())
}

// inTurn hands off as vLLM does with NIXL. The legs share their memory:
// decode's keys are written over prefill's when those have been sent.
func (p *twoLegProxy) inTurn(ctx context.Context, w http.ResponseWriter, prefill, decode leg) error {
	answer, err := p.read(ctx, prefill.with([]byte(`,"stream":false,"max_tokens":1,"kv_transfer_params":{"do_remote_decode":true,"do_remote_prefill":false}`)))
	if err != nil {
		return err
	}
	var said struct {
		Params json.RawMessage `json:"kv_transfer_params"`
	}
	if err := json.Unmarshal(answer, &said); err != nil {
		return err
	}
	return p.relay(ctx, w, decode.with(append([]byte(`,"kv_transfer_params":`), said.Params...)))
}

// send sends a leg.
func (p *twoLegProxy) send(ctx context.Context, l leg) (*http.Response, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://"+l.host+l.path, bytes.NewReader(l.body))
	if err != nil {
		return nil, err
	}
	req.Header.Set("Content-Type", "application/json")
	answer, err := p.transport.RoundTrip(req)
	if err != nil {
		return nil, err
	}
	if answer.StatusCode != http.StatusOK {
		answer.Body.Close()
		return nil, fmt.Errorf("status %d from %s", answer.StatusCode, l.host)
	}
	return answer, nil
}

// read sends a leg and reads its answer.
func (p *twoLegProxy) read(ctx context.Context, l leg) ([]byte, error) {
	answer, err := p.send(ctx, l)
	if err != nil {
		return nil, err
	}
	defer answer.Body.Close()
	return io.ReadAll(answer.Body)
}

// relay sends a leg and copies its answer to the client.
func (p *twoLegProxy) relay(ctx context.Context, w http.ResponseWriter, l leg) error {
	answer, err := p.send(ctx, l)
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	buf := p.buffers.Get().(*[]byte)
	defer p.buffers.Put(buf)
	maps.Copy(w.Header(), answer.Header)
	return relay(w, answer.StatusCode, answer.Body, *buf)
}

// newBuffers returns a pool of buffers to copy with.
func newBuffers() sync.Pool {
	return sync.Pool{New: func() any { b := make([]byte, 32<<10); return &b }}
}

// relay copies an answer, whose header has been copied, to the client, flushed
// once per read.
func relay(w http.ResponseWriter, status int, body io.Reader, buf []byte) error {
	w.WriteHeader(status)
	control := http.NewResponseController(w)
	for {
		n, err := body.Read(buf)
		if n > 0 {
			if _, err := w.Write(buf[:n]); err != nil {
				return err
			}
			if err := control.Flush(); err != nil {
				return err
			}
		}
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
	}
}

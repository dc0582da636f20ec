package sim

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
)

// The ways in which asking a prefill engine can fail.
var (
	errUnreachable = errors.New("prefill engine cannot be reached")
	errLost        = errors.New("connection with the prefill engine is lost")
)

// fetch waits for the KV of an SGLang leg, from the bootstrap server that its
// body names.
func (c *call) fetch(l *leg) (handOff, error) {
	e := c.e
	host, port := c.r.host(l.index), c.r.port(l.index, e.BootstrapPort())
	addr := net.JoinHostPort(host, strconv.Itoa(port))
	if host == "" || e.faults.cutOff(addr) {
		return handOff{}, c.fetchFailed(l, addr, errUnreachable)
	}
	if err := e.handshake(c.ctx, addr); err != nil {
		return handOff{}, c.fetchFailed(l, addr, err)
	}
	ctx, cancel := context.WithTimeoutCause(c.ctx, e.cfg.WaitingTimeout, context.DeadlineExceeded)
	defer cancel()
	var kv handOff
	if err := e.ask(ctx, "http://"+addr+joinPath+"?room="+strconv.FormatUint(l.room, 10), "", &kv); err != nil {
		return kv, c.fetchFailed(l, addr, err)
	}
	if kv.Error != "" {
		e.counts.failedTransfers.Add(1)
		return kv, transferError(whatTransfer, l, kv.Error)
	}
	return kv, nil
}

// fetchFailed waits as long as a real engine takes to give up, and returns
// what it then answers.
func (c *call) fetchFailed(l *leg, addr string, err error) error {
	e := c.e
	e.counts.failedTransfers.Add(1)
	switch {
	case errors.Is(err, errAborted):
		return transferError(whatTransfer, l, "Aborted by AbortReq.")
	case errors.Is(err, context.DeadlineExceeded):
		return timedOut(l, whatTransfer, e.cfg.WaitingTimeout, "WaitingForInput")
	case errors.Is(err, errUnreachable):
		if err := sleep(c.ctx, e.cfg.HandshakeTimeout); err != nil && !errors.Is(err, errAborted) {
			return err
		}
		return transferError(whatHandshake, l, "Aborted by AbortReq.")
	case errors.Is(err, errLost):
		e.known.Delete(addr)
		if err := sleep(c.ctx, e.cfg.LostTimeout); err != nil && !errors.Is(err, errAborted) {
			return err
		}
		return transferError(whatTransfer, l, "Lost connection with prefill instance (bootstrap_addr: "+addr+")")
	}
	return err
}

// handshake learns from a bootstrap server, once, whether its blocks are like
// ours.
func (e *Engine) handshake(ctx context.Context, addr string) error {
	if _, ok := e.known.Load(addr); ok {
		return nil
	}
	var told struct {
		PageSize int    `json:"page_size"`
		KVType   string `json:"kv_cache_dtype"`
	}
	const ranks = "/route?prefill_dp_rank=-1&prefill_cp_rank=-1&target_tp_rank=-1&target_pp_rank=-1"
	if err := e.ask(ctx, "http://"+addr+ranks, http.MethodGet, &told); err != nil {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		return fmt.Errorf("%w: %w", errUnreachable, err)
	}
	if told.PageSize != e.cfg.BlockSize || told.KVType != "auto" {
		return fmt.Errorf("%w: page size %d, KV type %s", errUnreachable, told.PageSize, told.KVType)
	}
	e.known.Store(addr, true)
	return nil
}

// ask sends a request to another engine and decodes its answer. method is GET,
// or the body of a POST.
func (e *Engine) ask(ctx context.Context, url, method string, into any) error {
	var body io.Reader = http.NoBody
	if method != http.MethodGet {
		body, method = strings.NewReader(method), http.MethodPost
	}
	req, err := http.NewRequestWithContext(ctx, method, url, body)
	if err != nil {
		return fmt.Errorf("%w: %w", errUnreachable, err)
	}
	resp, err := e.peers.Do(req)
	if err == nil {
		defer resp.Body.Close()
		if resp.StatusCode != http.StatusOK {
			return fmt.Errorf("%w: %s", errUnreachable, resp.Status)
		}
		err = json.NewDecoder(resp.Body).Decode(into)
		_, _ = io.Copy(io.Discard, resp.Body)
	}
	switch {
	case err == nil:
		return nil
	case ctx.Err() != nil:
		return context.Cause(ctx)
	}
	if op, ok := errors.AsType[*net.OpError](err); ok && op.Op == "dial" {
		return fmt.Errorf("%w: %w", errUnreachable, err)
	}
	return fmt.Errorf("%w: %w", errLost, err)
}

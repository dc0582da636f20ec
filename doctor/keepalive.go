package doctor

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"strings"
	"time"
)

const (
	// longestIdle is how long a connection is watched, at most.
	longestIdle = 10 * time.Second

	// balancerIdle is how long usual load balancers keep a connection without a
	// request.
	balancerIdle = 60 * time.Second

	// apartAtMost is what two clocks may be apart.
	apartAtMost = 3 * time.Second
)

// keepAlive finds whether an engine leaves a connection without a request open for
// as long as the router keeps it: one that it closes first is closed, now and then,
// under a request.
func (c *Case) keepAlive(ctx context.Context, w Worker) []Finding {
	found := &chart{check: KeepAlive}
	do := "say less with --upstream-pool-idle-timeout-secs, or give the engine more (SGLANG_TIMEOUT_KEEP_ALIVE, VLLM_HTTP_TIMEOUT_KEEP_ALIVE)"
	if strings.HasPrefix(w.URL, "https:") {
		found.note(Unknown, w.name(), "", "over TLS this is not looked at")
		return found.all
	}
	lasted, err := idleFor(ctx, w, min(c.EngineIdle, longestIdle))
	switch {
	case errors.Is(err, errSilent):
		return nil // engines has told it
	case errors.Is(err, errOnce):
		found.note(Warning, w.name(), "look for a proxy before it, or for what it was started with", "it closes each connection after one request, so each one costs a new connection")
	case errors.Is(err, io.EOF):
		found.note(Warning, w.name(), do, "it closes a connection without a request after %.1f s, and the router keeps them for %.0f s", lasted.Seconds(), c.EngineIdle.Seconds())
	case err != nil:
		return nil
	case c.EngineIdle > longestIdle:
		found.note(Unknown, w.name(), do, "it keeps connections for %.0f s at least; the router keeps them for %.0f s, and is to close them first", lasted.Seconds(), c.EngineIdle.Seconds())
	default:
		found.note(OK, w.name(), "", "it keeps connections for longer than the router, which does so for %.0f s", c.EngineIdle.Seconds())
	}
	return found.all
}

var (
	errSilent = errors.New("no answer")
	errOnce   = errors.New("closed after one answer")
)

// idleFor makes one request and watches the connection then, for at most limit.
// The error is io.EOF if it is closed.
func idleFor(ctx context.Context, w Worker, limit time.Duration) (time.Duration, error) {
	network, address := "tcp", ""
	if path, is := strings.CutPrefix(w.URL, "unix:"); is {
		network, address = "unix", path
	} else if u, err := url.Parse(w.URL); err == nil {
		address = u.Host
		if u.Port() == "" {
			address = net.JoinHostPort(u.Hostname(), "80")
		}
	}
	dialling, cancel := context.WithTimeout(ctx, askTime)
	defer cancel()
	conn, err := new(net.Dialer).DialContext(dialling, network, address)
	if err != nil {
		return 0, errSilent
	}
	defer conn.Close()
	defer context.AfterFunc(ctx, func() { _ = conn.Close() })()
	_ = conn.SetDeadline(time.Now().Add(askTime))
	_, err = fmt.Fprint(conn, "GET /v1/models HTTP/1.1\r\nHost: engine\r\n\r\n")
	if err != nil {
		return 0, errSilent
	}
	answers := bufio.NewReader(conn)
	resp, err := http.ReadResponse(answers, nil)
	if err != nil {
		return 0, errSilent
	}
	_, err = io.Copy(io.Discard, resp.Body)
	_ = resp.Body.Close()
	switch {
	case err != nil:
		return 0, errSilent
	case resp.Close:
		return 0, errOnce
	}
	began := time.Now()
	_ = conn.SetDeadline(began.Add(limit))
	_, err = answers.ReadByte()
	if errors.Is(err, os.ErrDeadlineExceeded) {
		return limit, nil
	}
	if ctx.Err() != nil {
		return 0, errSilent
	}
	return time.Since(began), io.EOF
}

// clientIdle finds whether the router keeps clients' connections for long enough.
func (c *Case) clientIdle() []Finding {
	found := &chart{check: KeepAlive}
	const flag = "--idle-connection-timeout-secs"
	switch {
	case c.ClientIdle == 0:
		found.note(OK, flag, "", "clients' connections are kept until clients close them")
	case c.ClientIdle <= balancerIdle:
		found.note(Warning, flag, "say 75 or more", "clients' connections are closed after %.0f s without a request; load balancers keep theirs for %.0f s and more, and send into one that is being closed", c.ClientIdle.Seconds(), balancerIdle.Seconds())
	default:
		found.note(OK, flag, "", "clients' connections are kept for %.0f s, longer than load balancers usually do", c.ClientIdle.Seconds())
	}
	return found.all
}

// clocks finds whose clock is not ours.
func clocks(workers []examined) []Finding {
	found := &chart{check: Clocks}
	known := 0
	for _, w := range workers {
		if w.engine == nil || !w.engine.Clocked {
			continue
		}
		known++
		if ahead := w.engine.Ahead; ahead.Abs() > apartAtMost {
			word := "ahead of"
			if ahead < 0 {
				word = "behind"
			}
			found.note(Warning, w.name(), "let both hosts keep their time (timedatectl, chronyc tracking)", "its clock is %.0f s %s this host's: logs do not fit together, and an engine's restart may be missed", ahead.Abs().Seconds(), word)
		}
	}
	switch {
	case known == 0:
		found.note(Unknown, "", "", "no engine tells its time")
	case len(found.all) == 0:
		found.note(OK, "", "", "%d engines have the time of this host, within %.0f s", known, apartAtMost.Seconds())
	}
	return found.all
}

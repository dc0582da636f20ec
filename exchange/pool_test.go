package exchange

import (
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"time"
)

// open begins n exchanges at once and ends them in their order.
func open(t *testing.T, p *Peer, n int) {
	t.Helper()
	var answers []*Answer
	for range n {
		a, err := p.Do(t.Context(), post())
		if err != nil {
			t.Fatal(err)
		}
		answers = append(answers, a)
	}
	for _, a := range answers {
		if _, err := readAll(a); err != nil {
			t.Fatal(err)
		}
		a.Close()
	}
}

func TestPoolTakesTheLastUsedFirst(t *testing.T) {
	p := dialled(t, serve(t, saying(okAnswer)))
	open(t, p, 3)
	wantStats(t, p, Stats{Open: 3, Idle: 3})
	last := p.pool.idle[2]
	a, err := p.Do(t.Context(), post())
	if err != nil {
		t.Fatal(err)
	}
	defer a.Close()
	if a.conn != last {
		t.Error("Do() took another connection than the last used")
	}
	wantStats(t, p, Stats{Open: 3, Idle: 2})
}

func TestPoolKeepsMaxIdle(t *testing.T) {
	p := dialled(t, serve(t, saying(okAnswer)), func(c *Config) { c.MaxIdle = 2 })
	open(t, p, 4)
	wantStats(t, p, Stats{Open: 2, Idle: 2})
}

func TestPoolOpensMaxOpen(t *testing.T) {
	p := dialled(t, serve(t, saying(okAnswer)), func(c *Config) { c.MaxOpen = 1 })
	a, err := p.Do(t.Context(), post())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := p.Do(t.Context(), post()); !errors.Is(err, ErrTooManyConnections) {
		t.Errorf("second Do() = %v, want ErrTooManyConnections", err)
	}
	wantStats(t, p, Stats{Open: 1})
	a.Close()
	wantStats(t, p, Stats{})
	for range 3 {
		exchanged(t, p, post())
	}
	wantStats(t, p, Stats{Open: 1, Idle: 1})
}

func TestPoolOfAClosedPeer(t *testing.T) {
	p := dialled(t, serve(t, saying(okAnswer)))
	open(t, p, 2)
	a, err := p.Do(t.Context(), post())
	if err != nil {
		t.Fatal(err)
	}
	p.Close()
	wantStats(t, p, Stats{Open: 1})
	if got, err := readAll(a); got != "ok" || err != nil {
		t.Errorf("body of an exchange that was going on = %q, %v", got, err)
	}
	a.Close()
	wantStats(t, p, Stats{})
	exchanged(t, p, post())
	wantStats(t, p, Stats{})
	p.Close()
}

func TestPoolNeverUsesTheTooOld(t *testing.T) {
	p := dialled(t, serve(t, saying(okAnswer)))
	open(t, p, 3)
	if c, err := p.pool.take(time.Now().Add(p.cfg.IdleTimeout)); c != nil || err != nil {
		t.Errorf("take() after IdleTimeout = %v, %v, want none", c, err)
	}
	wantStats(t, p, Stats{Open: 1}) // the place that take has given
	p.pool.release()
}

func TestPoolClosesTheTooOldByItself(t *testing.T) {
	closed := make(chan struct{}, 3)
	p := dialled(t, serve(t, func(l *line) {
		saying(okAnswer)(l)
		closed <- struct{}{}
	}), func(c *Config) { c.IdleTimeout = 20 * time.Millisecond })
	open(t, p, 3)
	for range 3 {
		within(t, patience, closed, "the engine sees an idle connection close")
	}
	eventually(t, func() bool { return p.Stats() == Stats{} }, func() { t.Errorf("Stats() = %+v, want none", p.Stats()) })
}

func TestPoolSweepsOnlyTheTooOld(t *testing.T) {
	p := dialled(t, serve(t, saying(okAnswer)), func(c *Config) { c.IdleTimeout = time.Hour })
	open(t, p, 3)
	now := time.Now()
	p.pool.idle[0].idleSince = now.Add(-time.Hour)
	p.pool.sweeper.Stop()
	young := p.pool.idle[1]
	p.pool.sweep()
	if p.pool.idle[0] != young || p.pool.sweeper == nil {
		t.Error("sweep() closed a young connection, or does not come back")
	}
	wantStats(t, p, Stats{Open: 2, Idle: 2})
}

func TestIdleTimeoutZeroMeansNoPool(t *testing.T) {
	p := dialled(t, serve(t, saying(okAnswer)), func(c *Config) { c.IdleTimeout = 0 })
	exchanged(t, p, post())
	wantStats(t, p, Stats{})
}

// TestIdleConnection shows what an engine may do with a connection that nobody
// uses, over each kind of socket. The next exchange must not notice.
func TestIdleConnection(t *testing.T) {
	does := map[string]func(l *line){
		"closes":             func(l *line) { l.Close() },
		"resets":             (*line).reset,
		"says it is too old": func(l *line) { l.say("HTTP/1.1 408 Request Timeout\r\nContent-Length: 0\r\n\r\n") },
		"sends one byte":     func(l *line) { l.say("x") },
	}
	for name, do := range does {
		forEachSocket(t, "the engine "+name, func(t *testing.T, serve server) {
			idle, done := make(chan struct{}), make(chan struct{})
			p := serve(t, func(l *line) {
				l.request()
				l.say(okAnswer)
				<-idle
				do(l)
				close(done)
				l.untilClosed()
			}, saying(okAnswer))
			exchanged(t, p, post())
			first := p.pool.idle[0]
			close(idle)
			<-done
			// Over loopback what was done has arrived, or does at once.
			eventually(t, func() bool { return !first.quiet() }, func() { t.Error("quiet() stays true") })
			exchanged(t, p, post())
			if p.pool.idle[0] == first {
				t.Error("the connection was used again")
			}
			wantStats(t, p, Stats{Open: 1, Idle: 1})
		})
	}
}

// TestTLSFarewellBehindTheAnswer has the closing alert in the same segment as
// the end of the answer: TLS has read it, and no look at the socket shows it.
func TestTLSFarewellBehindTheAnswer(t *testing.T) {
	url, trust := serveTLS(t, func(l *line) {
		l.request()
		corked(l, okAnswer)
	}, saying(okAnswer))
	p := dialled(t, url, func(c *Config) { c.TLS = trust })
	for range 2 {
		exchanged(t, p, post())
	}
}

// TestStale shows which deaths of a connection say nothing about the worker. In
// each the engine gets the request only once.
func TestStale(t *testing.T) {
	tests := []struct {
		name  string
		first bool // on a new connection
		then  func(l *line)
		stale bool
		bound time.Duration // patience when zero
	}{
		{name: "a used connection that is closed unanswered", then: func(l *line) { l.Close() }, stale: true},
		{name: "a used connection that is reset unanswered", then: (*line).reset, stale: true},
		{name: "a new connection that is closed unanswered", first: true, then: func(l *line) { l.Close() }},
		{name: "a new connection that is reset unanswered", first: true, then: (*line).reset},
		{name: "a used connection that dies after one byte", then: func(l *line) { l.say("H") }},
		{name: "a used connection that dies after a 1xx head", then: func(l *line) { l.say("HTTP/1.1 100 Continue\r\n\r\n") }},
		{name: "a used connection with nonsense on it", then: func(l *line) { l.say("nonsense\r\n\r\n") }},
		{name: "a used connection that is silent", then: (*line).untilClosed, bound: 50 * time.Millisecond},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			var requests atomic.Int32
			p := dialled(t, serve(t, func(l *line) {
				if !test.first {
					l.request()
					l.say(okAnswer)
				}
				l.request()
				requests.Add(1)
				test.then(l)
			}, func(*line) { t.Error("a second connection was opened") }))
			if !test.first {
				exchanged(t, p, post())
			}
			req := post()
			if test.bound > 0 {
				req.FirstByte = test.bound
			}
			_, err := p.Do(t.Context(), req)
			if e := wantError(t, err); e.Stale != test.stale || e.Phase != Head {
				t.Errorf("Do() = %v (%+v), want stale %v", err, e, test.stale)
			}
			if n := requests.Load(); n != 1 {
				t.Errorf("the engine got %d requests, want 1", n)
			}
			wantStats(t, p, Stats{})
		})
	}
}

// TestConcurrentUse has many goroutines on few connections, some of which the
// engine closes.
func TestConcurrentUse(t *testing.T) {
	p := dialled(t, serve(t, func(l *line) {
		for range 7 {
			r, body := l.request()
			if r == nil {
				return
			}
			l.say(fmt.Sprintf("HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s", len(body), body))
		}
	}))
	errs := make(chan error)
	for g := range 8 {
		go func() { errs <- talk(t, p, g) }()
	}
	for range 8 {
		if err := <-errs; err != nil {
			t.Error(err)
		}
	}
	if s := p.Stats(); s.Open != s.Idle {
		t.Errorf("Stats() = %+v at rest", s)
	}
}

// talk sends requests of its own and checks that the answers are too.
func talk(t *testing.T, p *Peer, g int) error {
	for i := range 100 {
		want := fmt.Sprintf("%d/%d", g, i)
		a, err := p.Do(t.Context(), &Request{Path: "/", Body: [][]byte{[]byte(want)}, FirstByte: patience})
		if e, ok := errors.AsType[*Error](err); ok && e.Stale {
			continue // closed between our look and our write
		}
		if err != nil {
			return err
		}
		got, err := readAll(a)
		a.Close()
		if got != want || err != nil {
			return fmt.Errorf("answer = %q, %w, want %q", got, err, want)
		}
	}
	return nil
}

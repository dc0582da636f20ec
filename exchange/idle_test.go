package exchange

import (
	"io"
	"strings"
	"sync"
	"testing"
	"time"
)

func TestFirstByteBoundsTheHead(t *testing.T) {
	scripts := map[string]func(l *line){
		"silence": func(l *line) {
			l.request()
			l.untilClosed()
		},
		"a head that trickles": func(l *line) {
			l.request()
			trickle(l, "HTTP/1.1 200 OK\r\nX: "+string(make([]byte, 10000)))
		},
		"1xx heads that trickle": func(l *line) {
			l.request()
			trickle(l, strings.Repeat("HTTP/1.1 100 Continue\r\n\r\n", 100))
		},
	}
	for name, script := range scripts {
		forEachSocket(t, name, func(t *testing.T, serve server) {
			p := serve(t, script)
			req := post()
			req.FirstByte = 100 * time.Millisecond
			begun := time.Now()
			_, err := p.Do(t.Context(), req)
			if e := wantError(t, err); e.Phase != Head || !e.Timeout || e.Stale {
				t.Errorf("Do() = %+v, want a head that timed out", e)
			}
			if took := time.Since(begun); took > time.Second {
				t.Errorf("Do() took %v", took)
			}
			wantStats(t, p, Stats{})
		})
	}
}

// trickle says s slowly, until nobody listens.
func trickle(l *line, s string) {
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for i := range len(s) {
		<-tick.C
		if _, err := io.WriteString(l.Conn, s[i:i+1]); err != nil {
			return
		}
	}
}

func TestIdleBoundsARead(t *testing.T) {
	for _, rest := range []string{"Content-Length: 9\r\n\r\nhello", "Transfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n", "\r\nhello"} {
		forEachSocket(t, rest, func(t *testing.T, serve server) {
			p := serve(t, func(l *line) {
				l.request()
				l.say("HTTP/1.1 200 OK\r\n" + rest)
				l.untilClosed()
			})
			a, err := p.Do(t.Context(), post())
			if err != nil {
				t.Fatal(err)
			}
			defer a.Close()
			a.SetIdle(50 * time.Millisecond)
			body, err := io.ReadAll(a)
			if e := wantError(t, err); string(body) != "hello" || e.Phase != Body || !e.Timeout || e.Stale {
				t.Errorf("body = %q, %v (%+v), want hello and a timeout", body, err, e)
			}
		})
	}
}

// TestIdleDoesNotRunBetweenReads has a client slower than the bound, and later
// exchanges on the same connection.
func TestIdleDoesNotRunBetweenReads(t *testing.T) {
	forEachSocket(t, "a slow client", func(t *testing.T, serve server) {
		next := make(chan struct{})
		more := sync.OnceFunc(func() { close(next) })
		p := serve(t, func(l *line) {
			l.request()
			l.say("HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nhello")
			<-next
			l.say("hello")
			saying(okAnswer)(l)
		})
		a, err := p.Do(t.Context(), post())
		if err != nil {
			t.Fatal(err)
		}
		first := a.conn
		const idle = 50 * time.Millisecond
		a.SetIdle(idle)
		buf := make([]byte, 5)
		pause := time.NewTimer(0)
		for range 2 {
			<-pause.C
			if n, err := io.ReadFull(a, buf); n != 5 {
				t.Fatalf("Read() = %d, %v", n, err)
			}
			pause.Reset(3 * idle)
			more()
		}
		a.Close()
		<-pause.C
		exchanged(t, p, post())
		wantStats(t, p, Stats{Open: 1, Idle: 1})
		if p.pool.idle[0] != first {
			t.Error("the old bound made the connection unfit")
		}
	})
}

func TestFirstByteDoesNotBoundTheBody(t *testing.T) {
	forEachSocket(t, "a body that comes late", func(t *testing.T, serve server) {
		const bound = 150 * time.Millisecond
		next := make(chan struct{})
		p := serve(t, func(l *line) {
			l.request()
			l.say("HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n")
			<-next
			l.say("hello")
			l.untilClosed()
		})
		req := post()
		req.FirstByte = bound
		a, err := p.Do(t.Context(), req)
		if err != nil {
			t.Fatal(err)
		}
		defer a.Close()
		late := time.AfterFunc(3*bound, func() { close(next) })
		defer late.Stop()
		if body, err := io.ReadAll(a); string(body) != "hello" || err != nil {
			t.Errorf("body = %q, %v", body, err)
		}
	})
}

func TestIdleCanBeLifted(t *testing.T) {
	next := make(chan struct{})
	p := dialled(t, serve(t, func(l *line) {
		l.request()
		l.say("HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nhello")
		<-next
		l.say("hello")
		l.untilClosed()
	}))
	a, err := p.Do(t.Context(), post())
	if err != nil {
		t.Fatal(err)
	}
	defer a.Close()
	a.SetIdle(20 * time.Millisecond)
	if _, err := io.ReadFull(a, make([]byte, 5)); err != nil {
		t.Fatal(err)
	}
	a.SetIdle(0)
	late := time.AfterFunc(60*time.Millisecond, func() { close(next) })
	defer late.Stop()
	if n, err := io.ReadFull(a, make([]byte, 5)); n != 5 {
		t.Errorf("Read() after SetIdle(0) = %d, %v", n, err)
	}
}

package main

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"pdrouter/sim"
)

// A moment is when, in the life of its request, a client leaves.
type moment struct {
	name   string
	stream bool
	slow   bool // prefill is to take longer than engines have to see it
	short  bool // the answer is to end sooner than that

	sent   float64 // leaves when so much of the body is sent, if below 1
	role   string  // else waits for this role's leg
	answer bool    // to be answered; else to arrive
	after  time.Duration
	head   bool // waits for the head of its answer
	events int  // then for so many events
	bytes  int  // and for so many bytes
}

// The times of the engines in these tests. An answer takes two seconds, as does
// prefill for a slow moment, so that no leg ends by itself before it must have
// been cancelled.
const (
	leavePrefill = 100 * time.Microsecond // per token
	leaveDecode  = 4 * time.Millisecond
	slowPrompt   = 20_000 // tokens
	quickPrompt  = 100
	longAnswer   = 500
	shortAnswer  = 10
)

// moments returns fifty of them.
func moments() []moment {
	var list []moment
	for i, sent := range []float64{0, 0.1, 0.25, 0.5, 0.75, 0.9, 0.999} {
		list = append(list, moment{name: fmt.Sprintf("%v of the body is sent", sent), stream: i%2 == 0, sent: sent, slow: true})
	}
	for _, stream := range []bool{false, true} {
		add := func(m moment) {
			m.stream, m.sent = stream, 1
			m.name = fmt.Sprintf("%s, stream=%t", m.name, stream)
			list = append(list, m)
		}
		for _, ms := range []int{0, 1} {
			add(moment{name: fmt.Sprintf("%d ms after all is sent", ms), slow: true, after: time.Duration(ms) * time.Millisecond})
		}
		for _, ms := range []int{0, 2, 5, 9} {
			after := time.Duration(ms) * time.Millisecond
			add(moment{name: fmt.Sprintf("%d ms into prefill", ms), slow: true, role: sim.Prefill, after: after})
			add(moment{name: fmt.Sprintf("%d ms into decode", ms), role: sim.Decode, after: after})
		}
		for _, ms := range []int{0, 2} {
			add(moment{name: fmt.Sprintf("%d ms after prefill has answered", ms), role: sim.Prefill, answer: true, after: time.Duration(ms) * time.Millisecond})
		}
	}
	for _, ms := range []int{20, 40, 60, 80} {
		list = append(list, moment{name: fmt.Sprintf("%d ms into decode, no stream", ms), sent: 1, role: sim.Decode, after: time.Duration(ms) * time.Millisecond})
	}
	for _, n := range []int{0, 1, 2, 3, 4, 5, 6, 8, 10, 12, 15} {
		list = append(list, moment{name: fmt.Sprintf("the head and %d events have come", n), stream: true, sent: 1, head: true, events: n})
	}
	list = append(list,
		moment{name: "half an event has come", stream: true, sent: 1, head: true, bytes: 50},
		moment{name: "some and a half events have come", stream: true, sent: 1, head: true, bytes: 777},
		moment{name: "a byte of a JSON answer has come", sent: 1, short: true, head: true, bytes: 1},
		moment{name: "half of a JSON answer has come", sent: 1, short: true, head: true, bytes: 150},
	)
	return list
}

// A clinic is a fleet whose clients leave.
type clinic struct {
	t       testing.TB
	f       *fleet
	lookout *lookout
	dialect string

	mu         sync.Mutex
	seen, told []time.Duration
}

func newClinic(t testing.TB, dialect string) *clinic {
	t.Helper()
	c := &clinic{t: t, lookout: newLookout(), dialect: dialect}
	n := 0
	c.f = newFleet(t, fleetPlan{
		dialect: dialect,
		engine: func(e *sim.Config) {
			e.PrefillPerToken, e.DecodePerToken, e.KVTokens = leavePrefill, leaveDecode, 1<<20
			e.Lease = 2 * time.Second
			e.DisconnectDelay = 20 * time.Millisecond // so that one's work does not delay others for long
		},
		via: func(e *sim.Engine) string {
			role := [...]string{sim.Prefill, sim.Decode}[n/2]
			n++
			return c.lookout.post(t, e, role)
		},
	})
	return c
}

// TestLeaving has clients leave at each of fifty moments, twenty times each.
// Engines see it within a second, those of SGLang are told to abort within it
// too, and hold nothing afterwards (I3, I8).
func TestLeaving(t *testing.T) {
	if n := len(moments()); n != 50 {
		t.Fatalf("there are %d moments, want 50", n)
	}
	times := 20
	if testing.Short() {
		times = 2
	}
	var wg sync.WaitGroup
	for _, dialect := range []string{sim.SGLang, sim.VLLMNixl} {
		wg.Go(func() {
			t.Run(dialect, func(t *testing.T) {
				c := newClinic(t, dialect)
				c.run(times, 12)
				(&storm{t: t, f: c.f}).wantRest()
				c.wantReleased(50 * times)
				if n, least := len(c.seen), 30*times; n < least {
					t.Errorf("%d legs were cancelled, want at least %d: the moments show little", n, least)
				}
				t.Logf("%d legs saw it: p50 %v, p99 %v, at most %v", len(c.seen), percentile(c.seen, 50), percentile(c.seen, 99), percentile(c.seen, 100))
				if dialect == sim.SGLang {
					t.Logf("%d were told to abort: p50 %v, p99 %v, at most %v", len(c.told), percentile(c.told, 50), percentile(c.told, 99), percentile(c.told, 100))
				}
			})
		})
	}
	wg.Wait()
}

// wantReleased wants that prefill's blocks did not have to wait for the end of
// their lease. Some have to: where the client left in the moment in which prefill
// had answered, and the router had not read how to release them.
func (c *clinic) wantReleased(clients int) {
	c.t.Helper()
	expired := 0
	for _, e := range c.f.prefill {
		expired += int(e.Stats().ExpiredHolds)
	}
	c.t.Logf("of %d clients %d left blocks held until their lease ended", clients, expired)
	if expired > clients/100 {
		c.t.Errorf("%d prompts' blocks were held until their lease ended, want at most one in a hundred", expired)
	}
}

// BenchmarkLeaving measures how long it takes until engines see that a client
// has left, over all moments of a request's life.
func BenchmarkLeaving(b *testing.B) {
	for _, dialect := range []string{sim.SGLang, sim.VLLMNixl} {
		b.Run(dialect, func(b *testing.B) {
			c := newClinic(b, dialect)
			b.ResetTimer()
			all := moments()
			for i := range b.N {
				c.visit(all[i%len(all)], fmt.Sprint(i))
			}
			b.StopTimer()
			b.ReportMetric(percentile(c.seen, 50).Seconds()*1e3, "p50-ms")
			b.ReportMetric(percentile(c.seen, 99).Seconds()*1e3, "p99-ms")
		})
	}
}

// percentile returns the p-th of all, which it sorts.
func percentile(all []time.Duration, p int) time.Duration {
	if len(all) == 0 {
		return 0
	}
	slices.Sort(all)
	return all[(len(all)-1)*p/100].Round(10 * time.Microsecond)
}

// run has a client leave at each moment so many times, some at one time.
func (c *clinic) run(times, atATime int) {
	var wg sync.WaitGroup
	places := make(chan struct{}, atATime)
	for i := range times {
		for j, m := range moments() {
			places <- struct{}{}
			wg.Go(func() {
				defer func() { <-places }()
				c.visit(m, fmt.Sprintf("%d-%d", j, i))
			})
		}
	}
	wg.Wait()
}

// visit has one client leave, and wants that its engines see it.
func (c *clinic) visit(m moment, name string) {
	at, err := c.leave(m, name)
	if err != nil {
		c.t.Errorf("the client that leaves when %s: %v", m.name, err)
		return
	}
	var p parting
	if !eventually(func() bool { p = c.lookout.parting("client-"+name, at); return p.open == 0 && c.allTold(p) }) {
		c.t.Errorf("the client left when %s: %d legs do not see it, %v were not told", m.name, p.open, p.quiet)
		return
	}
	for _, d := range append(slices.Clone(p.seen), p.told...) {
		if d > time.Second {
			c.t.Errorf("the client left when %s: an engine saw it after %v", m.name, d)
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.seen, c.told = append(c.seen, p.seen...), append(c.told, p.told...)
}

// allTold reports whether the engines were told to abort what they have to be
// told of.
func (c *clinic) allTold(p parting) bool { return c.dialect != sim.SGLang || len(p.quiet) == 0 }

// leave sends a request, leaves at the moment, and returns when that was.
func (c *clinic) leave(m moment, name string) (at time.Time, err error) {
	conn, err := net.Dial("tcp", strings.TrimPrefix(c.f.base, "http://"))
	if err != nil {
		return at, err
	}
	defer conn.Close()
	conn.SetDeadline(time.Now().Add(10 * time.Second))
	tokens, answer := quickPrompt, longAnswer
	if m.slow {
		tokens = slowPrompt
	}
	if m.short {
		answer = shortAnswer
	}
	body := fmt.Sprintf(`{"model":"sim-model","max_tokens":%d,"ignore_eos":true,"stream":%t,"prompt":%q}`, answer, m.stream, leaverPrompt(name, tokens))
	fmt.Fprintf(conn, "POST /v1/completions HTTP/1.1\r\nHost: h\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n", len(body))
	if _, err := io.WriteString(conn, body[:int(m.sent*float64(len(body)))]); err != nil {
		return at, err
	}
	if err := c.await(m, "client-"+name, conn); err != nil {
		return at, err
	}
	if len(name)%2 == 0 { // some leave with a reset
		conn.(*net.TCPConn).SetLinger(0)
	}
	at = time.Now()
	return at, conn.Close()
}

// await returns when the moment has come.
func (c *clinic) await(m moment, name string, conn net.Conn) error {
	if m.role != "" {
		event := c.lookout.of(name).arrived[m.role]
		if m.answer {
			event = c.lookout.of(name).answered[m.role]
		}
		timer := time.NewTimer(10 * time.Second)
		defer timer.Stop()
		select {
		case <-event:
		case <-timer.C:
			return fmt.Errorf("the %s leg keeps it waiting", m.role)
		}
	}
	if m.after > 0 {
		timer := time.NewTimer(m.after)
		defer timer.Stop()
		<-timer.C
	}
	if !m.head {
		return nil
	}
	answer := bufio.NewReader(conn)
	for line := ""; line != "\r\n"; {
		var err error
		if line, err = answer.ReadString('\n'); err != nil {
			return fmt.Errorf("read the head: %w", err)
		}
	}
	for n := 0; n < m.events; {
		line, err := answer.ReadString('\n')
		if err != nil {
			return fmt.Errorf("read events: %w", err)
		}
		if strings.HasPrefix(line, "data: ") {
			n++
		}
	}
	_, err := io.CopyN(io.Discard, answer, int64(m.bytes))
	return err
}

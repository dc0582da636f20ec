package main

import (
	"context"
	"fmt"
	"net/http"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"pdrouter/sim"
)

// scenarios is the fault list.
func scenarios() []scenario {
	slow := func(c *sim.Config) { c.DecodePerToken = 50 * time.Millisecond }
	return []scenario{
		{"prefill answers 400", "the client has the 400 within 1 s", nil, refused},
		{"a prefill and a decode engine answer 500 once", "all of 32 requests answered right", nil, once(sim.Fault{Kind: sim.FaultStatus, Status: http.StatusInternalServerError})},
		{"a prefill and a decode engine reset a connection once", "all of 32 requests answered right", nil, once(sim.Fault{Kind: sim.FaultReset})},
		{"decode dies after 3 tokens", "the client is told (error event or broken connection) and reads no [DONE], within 10 s", nil, broken(sim.FaultDie)},
		{"decode ends early in order, without [DONE]", "as above", nil, broken(sim.FaultEndEarly)},
		{"decode answers 200 with half a JSON object", "an error status within 10 s", nil, halfJSON},
		{"decode answers 200 with what is no JSON", "an error status within 10 s", nil, notJSON},
		{"decode answers 429 to everything for 5 s", "the next good request is answered right within 1 s", nil, busy},
		{"40 x 500 and 40 resets among 2 000 requests", "all answered right", nil, among},
		{"a client leaves amid its stream", "both engines at rest within 1 s", slow, leaving},
	}
}

func refused(ctx context.Context, f *fleet, p *proxy) outcome {
	fail(f.prefills, sim.Fault{Kind: sim.FaultStatus, Status: http.StatusBadRequest, Body: `{"error":{"message":"bad","type":"BadRequestError","code":400}}`})
	got := p.ask(ctx, order{n: 100})
	return outcome{got.status == http.StatusBadRequest && got.took < time.Second, got.String()}
}

// once has one engine of either role fail one request of many.
func once(fault sim.Fault) func(context.Context, *fleet, *proxy) outcome {
	return func(ctx context.Context, f *fleet, p *proxy) outcome {
		fault.Count = 1
		fail(f.prefills[:1], fault)
		fail(f.decodes[:1], fault)
		before := f.firstSeen()
		right, bad := p.many(ctx, 32, 4)
		met := met(before, f.firstSeen(), 1, 1)
		return outcome{right == 32 && met > 0, fmt.Sprintf("%s; %d of 2 faults met", counted(right, 32, bad), met)}
	}
}

func broken(kind string) func(context.Context, *fleet, *proxy) outcome {
	return func(ctx context.Context, f *fleet, p *proxy) outcome {
		fail(f.decodes, sim.Fault{Kind: kind, Tokens: 3})
		got := p.ask(ctx, order{n: 100, stream: true, tokens: 64})
		return outcome{got.told() && !got.done(), got.String()}
	}
}

func halfJSON(ctx context.Context, f *fleet, p *proxy) outcome {
	return damaged(ctx, f, p, sim.FaultCutJSON)
}

func notJSON(ctx context.Context, f *fleet, p *proxy) outcome {
	return damaged(ctx, f, p, sim.FaultNotJSON)
}

func damaged(ctx context.Context, f *fleet, p *proxy, kind string) outcome {
	fail(f.decodes, sim.Fault{Kind: kind})
	got := p.ask(ctx, order{n: 100})
	figure := got.String()
	if got.status == http.StatusOK && !got.hung && got.err == nil {
		figure = "200, with what the engine said"
	}
	return outcome{got.status >= http.StatusInternalServerError, figure}
}

// busy sends requests to engines that refuse them all, then a good one.
func busy(ctx context.Context, f *fleet, p *proxy) outcome {
	fail(f.decodes, sim.Fault{Kind: sim.FaultStatus, Status: http.StatusTooManyRequests, Body: `{"error":{"message":"busy","type":"rate_limit","code":429}}`})
	began := time.Now()
	for n := 100; time.Since(began) < 5*time.Second; n += 4 {
		p.many(ctx, 4, 4)
		if !pause(ctx, 200*time.Millisecond) {
			return outcome{}
		}
	}
	open := "; breakers of prefill open: " + p.breakers(ctx, f.prefills)
	f.heal()
	first := p.ask(ctx, order{n: 5000})
	if first.right() {
		return outcome{first.took < time.Second, "the next: " + first.String() + open}
	}
	return outcome{false, fmt.Sprintf("the next: %s; %s%s", first, p.recovery(ctx), open)}
}

// recovery says when a router answers right again, though its engines are well.
func (p *proxy) recovery(ctx context.Context) string {
	healed := time.Now()
	for n := 5001; time.Since(healed) < 2*time.Minute; n++ {
		if p.ask(ctx, order{n: n}).right() {
			return fmt.Sprintf("the first that was right: %v later", time.Since(healed).Round(time.Second))
		}
		if !pause(ctx, 250*time.Millisecond) {
			break
		}
	}
	return "none right within two minutes"
}

// among has engines fail now and then.
func among(ctx context.Context, f *fleet, p *proxy) outcome {
	for i := range 40 {
		fail(f.prefills[:1], sim.Fault{Kind: sim.FaultStatus, Status: http.StatusInternalServerError, Nth: 1 + 20*i, Count: 1})
		fail(f.decodes[:1], sim.Fault{Kind: sim.FaultReset, Nth: 11 + 20*i, Count: 1})
	}
	before := f.firstSeen()
	right, bad := p.many(ctx, 2000, 16)
	met := met(before, f.firstSeen(), 19, 40)
	return outcome{right == 2000 && met > 0, fmt.Sprintf("%s; %d of 80 faults met", counted(right, 2000, bad), met)}
}

// firstSeen returns how many requests the first engine of either role has had.
func (f *fleet) firstSeen() [2]uint64 {
	return [2]uint64{f.prefills[0].Stats().TotalRequests, f.decodes[0].Stats().TotalRequests}
}

// met returns how many faults were met, told from the requests that the engines
// did not fail, if each failed one after every so many of them, most in all. A
// router that sends an engine little meets less.
func met(before, after [2]uint64, every, most int) (n int) {
	for i := range before {
		n += min(most, (int(after[i]-before[i])+every-1)/every)
	}
	return n
}

func leaving(ctx context.Context, f *fleet, p *proxy) outcome {
	got := p.ask(ctx, order{n: 100, stream: true, tokens: 1000, leave: true})
	if got.err != nil || got.status != http.StatusOK {
		return outcome{false, got.String()}
	}
	left := time.Now()
	for !f.atRest() {
		if time.Since(left) > patience || !pause(ctx, 5*time.Millisecond) {
			return outcome{false, fmt.Sprintf("not at rest after %v", patience)}
		}
	}
	took := time.Since(left)
	return outcome{took < time.Second, fmt.Sprintf("at rest after %v", took.Round(time.Millisecond))}
}

// many sends n requests, some at a time, and returns how many were answered
// right, and one of the other answers.
func (p *proxy) many(ctx context.Context, n, atOnce int) (right int, bad string) {
	var good atomic.Int64
	var other atomic.Pointer[reply]
	var g errgroup.Group
	g.SetLimit(atOnce)
	for i := range n {
		g.Go(func() error {
			got := p.ask(ctx, order{n: 1000 + i, stream: i%2 == 1})
			if got.right() {
				good.Add(1)
			} else {
				other.Store(&got)
			}
			return nil
		})
	}
	_ = g.Wait() // no request returns an error
	if r := other.Load(); r != nil {
		bad = r.String()
	}
	return int(good.Load()), bad
}

func counted(right, n int, bad string) string {
	text := fmt.Sprintf("%d of %d right", right, n)
	if bad != "" {
		text += "; one of the others: " + bad
	}
	return text
}

// pause waits, and reports whether ctx still runs.
func pause(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-timer.C:
		return true
	}
}

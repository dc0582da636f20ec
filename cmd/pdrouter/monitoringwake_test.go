package main

import (
	"context"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"pdrouter/sim"
	"pdrouter/workers"
)

// TestMonitoring runs a real Prometheus with what we ship, before a router with
// simulated engines. Every expression of every rule, alert and panel has a value
// while requests go through, or is silent and has one when that happens which it
// is there to tell; no alert fires meanwhile; and what is known of the engines is
// what Prometheus says.
func TestMonitoring(t *testing.T) {
	if testing.Short() {
		t.Skip("takes a minute")
	}
	for _, dialect := range []string{sim.SGLang, sim.VLLMNixl} {
		t.Run(dialect, func(t *testing.T) {
			m := newMonitored(t, dialect)
			requests := m.load()
			m.tell(0, func() []truth { return m.atRest(requests) })
			m.quiet()
			m.fill()
			m.full()
			m.leave()
			m.burst()
			m.slow()
			m.cutOff()
			m.stranger()
			m.inVain()
			m.sick()
			m.others() // the router keeps room for them for a while
			m.drain()
			m.texts()
			m.stop()
			m.sees(wakeDown)
			for where, expr := range m.left {
				if sleepers()[where] != wakeTime {
					t.Errorf("%s has had no value: %s", where, expr)
				}
			}
		})
	}
}

// quiet wants that no alert fires. A scrape may have come too late, and on a busy
// machine tokens do in earnest.
func (m *monitored) quiet() {
	const alerts = `ALERTS{alertname!~".*Burn.*"}`
	if !eventually(func() bool { return len(m.ask(alerts)) == 0 }) {
		m.t.Errorf("alerts while all is well: %v", m.ask(alerts))
	}
}

// others has somebody else send prompts to a decode engine, which computes them
// there, and more of them than it has room for. An SGLang engine takes none.
func (m *monitored) others() {
	if m.speaks != sim.VLLMNixl {
		return
	}
	var all sync.WaitGroup
	for i := range 14 {
		all.Go(func() { sendStep(m.client, m.decode[1].URL(), completion(m.t, i, prompt(400+i, 4*1200), 600)) })
	}
	m.sees(wakeOthers)
	all.Wait()
}

// fill has answers grow that would fill the KV caches in seconds.
func (m *monitored) fill() {
	wait := m.many(12, func(i int) step { return completion(m.t, 2*i+1, prompt(50+i, 400), 2000) })
	m.sees(wakeFills)
	wait()
}

// full fills the KV caches of decode with requests that stay there, one on each
// engine.
func (m *monitored) full() {
	for _, e := range m.decode {
		e.Fail(sim.Fault{Kind: sim.FaultWedge, Tokens: 2})
	}
	wait := m.many(2, func(i int) step { return completion(m.t, 2*i+1, prompt(100+i, 4*monitoredKV*97/100), 8) })
	m.sees(wakeFull)
	m.tell(0.01, m.whenFull) // what engines generate between two reports is foreseen
	m.heal()
	wait()
}

// leave has a client go amid its answer.
func (m *monitored) leave() {
	before := m.scraped(m.t).sum("pdrouter_client_departures_total", `phase="relay"`)
	for range 3 {
		ctx, cancel := context.WithTimeout(m.t.Context(), 300*time.Millisecond)
		s := completion(m.t, 1, prompt(1, 400), 2000)
		req, err := http.NewRequestWithContext(ctx, http.MethodPost, m.base+s.path, strings.NewReader(s.body))
		if err != nil {
			m.t.Fatal(err)
		}
		if resp, err := m.client.Do(req); err == nil {
			_, _ = resp.Body.Read(make([]byte, 1))
			<-ctx.Done()
			resp.Body.Close()
		}
		cancel()
	}
	m.tell(0, func() []truth {
		return []truth{{`sum(pdrouter_client_departures_total{phase="relay"})`, map[string]float64{"": before + 3}}}
	})
}

// burst sends more than may be under way and wait.
func (m *monitored) burst() {
	m.crowded(4*(monitoredSlots+monitoredLine), func() { m.sees(wakeBurst) })
}

// slow has decode take its time for each token.
func (m *monitored) slow() {
	for _, e := range m.decode {
		e.Fail(sim.Fault{Kind: sim.FaultSlow, Delay: 2600 * time.Millisecond})
	}
	m.many(16, func(i int) step { return completion(m.t, 2*i+1, prompt(200+i, 400), 3) })()
	m.sees(wakeSlow)
	m.heal()
}

// heal ends what ails the engines.
func (m *monitored) heal() {
	for _, e := range m.engines() {
		e.ClearFaults()
	}
}

// cutOff parts one decode engine from one of prefill.
func (m *monitored) cutOff() {
	m.decode[1].Fail(sim.Fault{Kind: sim.FaultCutOff, Peer: bootstrapOf(m.prefill[0])})
	m.crowded(4, func() { m.sees(wakeCutOff) })
	m.heal()
}

// crowded has n clients ask, whatever they get, while it waits for something.
func (m *monitored) crowded(n int, wait func()) {
	stop, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		for i := 0; ; i++ {
			select {
			case <-stop:
				return
			default:
				m.many(n, func(k int) step { return completion(m.t, k, prompt(1000+n*i+k, 400), 20) })()
			}
		}
	}()
	wait()
	close(stop)
	<-ended
}

// stranger adds a worker that is not there, and removes it.
func (m *monitored) stranger() {
	w, err := m.registry.Add(workers.Spec{Role: workers.Decode, URL: "http://127.0.0.1:9"})
	if err != nil {
		m.t.Fatal(err)
	}
	m.sees(wakeStranger)
	if err := m.registry.Remove(w.ID); err != nil {
		m.t.Fatal(err)
	}
}

// inVain has every attempt of a request fail.
func (m *monitored) inVain() {
	for _, e := range m.prefill {
		e.Fail(sim.Fault{Kind: sim.FaultStatus})
	}
	m.many(1, func(i int) step { return completion(m.t, i, prompt(500, 400), 5) })()
	m.sees(wakeInVain)
	m.heal()
}

// sick has one decode engine fail, and then all. It begins with the one that
// was cut off from a prefill engine.
func (m *monitored) sick() {
	m.decode[1].Fail(sim.Fault{Kind: sim.FaultStatus, Body: `{"error":{"message":"CUDA error"}}`})
	m.crowded(4, func() {
		m.sees(wakeSick)
		if !eventually(func() bool { return m.scraped(m.t).breaker(m.decode[1].URL()) == 1 }) {
			m.t.Error("its breaker does not open")
		}
	})
	m.decode[0].Fail(sim.Fault{Kind: sim.FaultReset}) // the last of a role is left out for no less
	m.crowded(4, func() { m.sees(wakeAllSick) })
	m.heal()
}

// drain has no decode worker left whose breaker is closed and that takes requests:
// those whose breaker is open are replaced by two that drain.
func (m *monitored) drain() {
	for _, s := range m.registry.Statuses() {
		if s.Worker.Role != workers.Decode {
			continue
		}
		if err := m.registry.Remove(s.Worker.ID); err != nil {
			m.t.Fatal(err)
		}
		w, err := m.registry.Add(workers.Spec{Role: workers.Decode, URL: startEngine(m.t, m.speaks, sim.Decode, nil).URL()})
		if err != nil {
			m.t.Fatal(err)
		}
		if err := m.registry.Drain(w.ID); err != nil {
			m.t.Fatal(err)
		}
	}
	m.sees(wakeDrain)
}

// texts wants that what alerts say was written without a fault.
func (m *monitored) texts() {
	for _, a := range m.prom.alerts(m.t) {
		for name, text := range a.Annotations {
			if text == "" || strings.Contains(text, "error") || strings.Contains(text, "no value") || strings.Contains(text, "{{") {
				m.t.Errorf("%s: %s = %q", a.Labels["alertname"], name, text)
			}
		}
	}
}

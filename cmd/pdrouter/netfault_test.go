package main

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"pdrouter/sim"
)

// A fate is how requests over a bad network end.
type fate int

const (
	unharmed fate = iota // with the right answer
	broken               // with 502: the engine could not be reached or broke off
	tooLate              // with 504
	either               // with the right answer, or an error by status or in the stream
)

// A netFault is something that networks do.
type netFault struct {
	name string
	toxic
	want fate
	// within is how long a client may have to wait for its answer or its error.
	// The bounds of the router are those of netPlan.
	within time.Duration
}

// The bounds of time in these tests. A stream that waits for prefill's verdict
// waits two seconds, so the first must be longer; with -race on a machine that
// has other things to do, much longer.
const (
	netFirstByte = 6 * time.Second
	netIdle      = time.Second
)

// soon is what a client may wait for what needs no time at all: the machine may
// have other things to do.
const soon = 5 * time.Second

func netFaults() []netFault {
	list := []netFault{
		{"latency down", toxic{"latency", `"latency":200,"jitter":50`, false}, unharmed, soon + time.Second},
		{"latency up", toxic{"latency", `"latency":200,"jitter":50`, true}, unharmed, soon + time.Second},
		{"10 KB/s down", toxic{"bandwidth", `"rate":10`, false}, unharmed, soon + 2*time.Second},
		{"10 KB/s up", toxic{"bandwidth", `"rate":10`, true}, unharmed, soon + time.Second},
		{"tiny pieces down", toxic{"slicer", `"average_size":12,"size_variation":11,"delay":20`, false}, unharmed, soon + 3*time.Second},
		{"tiny pieces up", toxic{"slicer", `"average_size":40,"size_variation":35,"delay":20`, true}, unharmed, soon + 3*time.Second},
		{"slow to close", toxic{"slow_close", `"delay":300`, false}, unharmed, soon},
		{"reset by the answer", toxic{"reset_peer", `"timeout":0`, false}, broken, soon},
		{"reset by the request", toxic{"reset_peer", `"timeout":0`, true}, broken, soon},
		{"reset after 100 ms", toxic{"reset_peer", `"timeout":100`, false}, broken, soon},
		{"closed after 300 ms of silence", toxic{"timeout", `"timeout":300`, false}, broken, soon},
		{"half open: no answer comes", toxic{"timeout", `"timeout":0`, false}, tooLate, netFirstByte + 5*time.Second},
		{"half open: no request arrives", toxic{"timeout", `"timeout":0`, true}, tooLate, netFirstByte + 5*time.Second},
		{"closed after much", toxic{"limit_data", `"bytes":1000000`, false}, unharmed, soon},
	}
	for _, k := range []int{0, 17, 120} {
		list = append(list, limited(k, false, broken))
	}
	for _, k := range []int{250, 700, 1500, 4000} {
		list = append(list, limited(k, false, either))
	}
	for _, k := range []int{0, 300, 2000} {
		list = append(list, limited(k, true, broken))
	}
	return list
}

// limited returns the fault that a connection is closed after k bytes.
func limited(k int, up bool, want fate) netFault {
	name := fmt.Sprintf("closed after %d bytes down", k)
	if up {
		name = fmt.Sprintf("closed after %d bytes up", k)
	}
	return netFault{name, toxic{"limit_data", fmt.Sprintf(`"bytes":%d`, k), up}, want, soon}
}

// TestNetworkFaults puts a bad network between the router and the engines of one
// role, those of the other being well. Whatever it does, the client has the
// right answer or a true error within a bound; what the other role's engines do
// for it ends within a second, and does not count against them; and at rest
// nothing is left (I1, I3, I7, I8).
func TestNetworkFaults(t *testing.T) {
	wantNoLeaks(t)
	const atATime = 8 // most of them only wait
	places := make(chan struct{}, atATime)
	var wg sync.WaitGroup
	for _, dialect := range []string{sim.SGLang, sim.VLLMNixl} {
		for _, role := range []string{sim.Prefill, sim.Decode} {
			for _, fault := range netFaults() {
				places <- struct{}{}
				wg.Go(func() {
					defer func() { <-places }()
					t.Run(dialect+"/"+role+"/"+fault.name, func(t *testing.T) { newNetCell(t, dialect, role, fault).run() })
				})
			}
		}
	}
	wg.Wait()
}

// netPlan is a fleet that does not wait for long, and whose engines notice by
// themselves that somebody left no sooner than real ones do.
func netPlan(dialect string, perToken time.Duration, via func(*sim.Engine) string) fleetPlan {
	return fleetPlan{
		dialect: dialect, via: via,
		engine: func(c *sim.Config) {
			c.Lease, c.DecodePerToken = time.Second, perToken
			c.KeepAlive = time.Minute // toxiproxy tells that an engine hangs up, which a dead network does not
		},
		config: func(c *Config) {
			c.Router.FirstByte, c.Router.RequestTimeout, c.Router.StreamIdle = netFirstByte, netFirstByte, netIdle
			c.Exchange.ConnectTimeout = time.Second
			c.Router.Retries.Attempts, c.Health.DisableBreakers = 1, true // one attempt is what is looked at
		},
	}
}

// A netCell is one fault on the way to the engines of one role.
type netCell struct {
	t             *testing.T
	f             *fleet
	dialect, role string
	fault         netFault
	wires         map[string]wire // by the URL of their engines
}

func newNetCell(t *testing.T, dialect, role string, fault netFault) *netCell {
	t.Helper()
	c := &netCell{t: t, dialect: dialect, role: role, fault: fault, wires: map[string]wire{}}
	c.f = newFleet(t, netPlan(dialect, 0, func(e *sim.Engine) string {
		c.wires[e.URL()] = newWire(t, e)
		return c.wires[e.URL()].url()
	}))
	if dialect == sim.SGLang && role == sim.Prefill && fault.name == "half open: no answer comes" {
		// The KV did come, and decode answers well: prefill's verdict is waited
		// for two seconds, and then done without.
		c.fault.want = unharmed
	}
	return c
}

// run sends some requests at one time, and looks at how each ends and at what is
// left of them.
func (c *netCell) run() {
	c.t.Helper()
	sick, well := c.f.prefill, c.f.decode
	if c.role == sim.Decode {
		sick, well = well, sick
	}
	awaitReports(c.t, c.f)
	for _, e := range sick {
		c.wires[e.URL()].relay(c.t, c.fault.toxic)
	}
	client := newClient(c.t)
	var wg sync.WaitGroup
	for i := range 4 { // of which two are streams
		wg.Go(func() { c.send(client, netStep(c.t, i)) })
	}
	wg.Wait()
	c.wantCancelled(well, time.Second)
	for _, e := range sick {
		c.wires[e.URL()].Stop()
	}
	(&storm{t: c.t, f: c.f}).wantRest()
	other := map[string]string{sim.Prefill: sim.Decode, sim.Decode: sim.Prefill}[c.role]
	legs := scrape(c.t, c.f.scrape.Addr().String())
	if n := legs.sum("pdrouter_legs_total", `role="`+other+`"`, `outcome="failed"`); n != 0 {
		c.t.Errorf("%v legs of %s count as failed, whose network is well", n, other)
	}
	if n := legs.sum("pdrouter_legs_total", `role="`+c.role+`"`, `outcome="failed"`); n == 0 && c.fault.want == broken {
		c.t.Errorf("no leg of %s counts as failed, whose network is broken", c.role)
	}
}

// awaitReports returns when the router has asked all engines all that it asks at
// its start.
func awaitReports(t *testing.T, f *fleet) {
	t.Helper()
	asked := func() bool {
		for _, s := range f.registry.Statuses() {
			if s.Report.At.IsZero() {
				return false
			}
		}
		return true
	}
	if !eventually(asked) {
		t.Fatal("the engines' loads were not read")
	}
}

// netStep returns a request: two of four are streams.
func netStep(t *testing.T, i int) step {
	t.Helper()
	s := step{path: "/v1/completions", stream: i%2 == 0, http: 1}
	body := map[string]any{"model": "sim-model", "max_tokens": 12 + i, "ignore_eos": true, "prompt": prompt(i, 4000)}
	if i/2 == 0 {
		s.path = "/v1/chat/completions"
		delete(body, "prompt")
		body["messages"] = []any{map[string]any{"role": "user", "content": prompt(i, 4000)}}
	}
	if s.stream {
		body["stream"] = true
	}
	s.body = jsonOf(t, body)
	return s
}

// send sends a request, and wants the fate that the fault has for it.
func (c *netCell) send(client *http.Client, s step) {
	began := time.Now()
	got := ask(client, c.f.base, s)
	took := time.Since(began)
	if took > c.fault.within {
		c.t.Errorf("the client waited %v, want at most %v", took, c.fault.within)
	}
	outcome, err := s.judge(got)
	status := map[fate]int{unharmed: 200, broken: 502, tooLate: 504}[c.fault.want]
	switch {
	case err != nil:
	case c.fault.want == either && outcome == toldByStatus && got.status != 502:
		err = errors.New("want status 502")
	case c.fault.want != either && got.status != status, c.fault.want == unharmed && outcome != wholeAnswer:
		err = fmt.Errorf("want status %d", status)
	}
	if err != nil {
		c.t.Errorf("%v\n%v\n\nanswer after %v: %v\n%v", err, s, took, got, c.f.logs.All())
	}
}

// ask sends a request and reads all of its answer.
func ask(client *http.Client, base string, s step) reply {
	resp, err := client.Post(base+s.path, "application/json", strings.NewReader(s.body))
	if err != nil {
		return reply{err: err}
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	return reply{status: resp.StatusCode, code: resp.Header.Get("X-SMG-Error-Code"), body: string(body), err: err}
}

// wantCancelled wants that the engines do nothing any more within that time.
func (c *netCell) wantCancelled(engines []*sim.Engine, within time.Duration) {
	c.t.Helper()
	since := time.Now()
	busy := func() (n int) {
		for _, e := range engines {
			n += e.Stats().Requests
		}
		return n
	}
	if !eventually(func() bool { return busy() == 0 }) || time.Since(since) > within {
		c.t.Errorf("%v after their clients had been answered, %d requests were under way on the engines of the other leg", time.Since(since), busy())
	}
}

// A network that goes silent while decode answers: the stream ends with an error
// event when it has been silent for too long, and decode's work for it ends.
func TestSilentAmidAnswer(t *testing.T) {
	wantNoLeaks(t)
	var wg sync.WaitGroup
	for _, dialect := range []string{sim.SGLang, sim.VLLMNixl} {
		for _, bothWays := range []bool{false, true} {
			wg.Go(func() {
				t.Run(fmt.Sprintf("%s/both ways=%t", dialect, bothWays), func(t *testing.T) { silentAmid(t, dialect, bothWays) })
			})
		}
	}
	wg.Wait()
}

func silentAmid(t *testing.T, dialect string, bothWays bool) {
	t.Helper()
	var wires []wire
	f := newFleet(t, netPlan(dialect, 30*time.Millisecond, func(e *sim.Engine) string {
		wires = append(wires, newWire(t, e))
		return wires[len(wires)-1].url()
	}))
	s := step{path: "/v1/completions", stream: true, http: 1, body: jsonOf(t, map[string]any{
		"model": "sim-model", "max_tokens": 500, "ignore_eos": true, "prompt": prompt(1, 400), "stream": true,
	})}
	resp, err := newClient(t).Post(f.base+s.path, "application/json", strings.NewReader(s.body))
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	begun := make([]byte, 600)
	if _, err := io.ReadFull(resp.Body, begun); err != nil {
		t.Fatal(err)
	}
	for _, w := range wires {
		w.add(t, toxic{"timeout", `"timeout":0`, false})
		if bothWays {
			w.add(t, toxic{"timeout", `"timeout":0`, true})
		}
	}
	silent := time.Now()
	rest, err := io.ReadAll(resp.Body)
	took := time.Since(silent)
	got := reply{status: resp.StatusCode, body: string(begun) + string(rest), err: err}
	if outcome, err := s.judge(got); err != nil || outcome != toldInStream {
		t.Errorf("%s, %v\n%v, want an error event", outcome, err, got)
	}
	if most := netIdle*3/2 + soon; took < netIdle || took > most {
		t.Errorf("the stream ended %v after the network had gone silent, want %v to %v", took, netIdle, most)
	}
	within := time.Second
	if bothWays { // no abort arrives, and the closed connection is noticed within 1 s
		within += time.Second
	}
	(&netCell{t: t, f: f}).wantCancelled(f.engines(), within)
	(&storm{t: t, f: f}).wantRest()
}

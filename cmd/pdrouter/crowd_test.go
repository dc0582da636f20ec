package main

import (
	"bytes"
	"fmt"
	"io"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"pdrouter/sim"
)

// A crowd is clients that send one request after the other until they are told
// to stop. Every answer is judged by itself, as in a storm: whole and right, or
// an error that says so.
type crowd struct {
	t      *testing.T
	client *http.Client
	base   string
	ask    func(i int) step
	stop   chan struct{}
	wg     sync.WaitGroup

	mu   sync.Mutex // guards the following
	next int
	got  []answered
}

// An answered is what one client of a crowd had.
type answered struct {
	asked step
	reply
	outcome      string
	retryAfter   string
	began, ended time.Time
}

// newCrowd lets n clients begin.
func newCrowd(t *testing.T, base string, n int, ask func(i int) step) *crowd {
	t.Helper()
	c := &crowd{t: t, client: newClient(t), base: base, ask: ask, stop: make(chan struct{})}
	for range n {
		c.wg.Go(c.run)
	}
	return c
}

// disperse tells the clients to stop, and returns what they had, in the order in
// which it came.
func (c *crowd) disperse() []answered {
	close(c.stop)
	c.wg.Wait()
	return c.got
}

// seen returns what they had so far that is as wanted.
func (c *crowd) seen(wanted func(answered) bool) (n int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, a := range c.got {
		if wanted(a) {
			n++
		}
	}
	return n
}

func (c *crowd) run() {
	for {
		select {
		case <-c.stop:
			return
		default:
		}
		c.mu.Lock()
		i := c.next
		c.next++
		c.mu.Unlock()
		a := sendStep(c.client, c.base, c.ask(i))
		var err error
		if a.outcome, err = a.asked.judge(a.reply); err != nil {
			c.t.Errorf("request %d: %v\n%v\n%v", i, err, a.asked, a.reply)
		}
		c.mu.Lock()
		c.got = append(c.got, a)
		c.mu.Unlock()
	}
}

// sendStep sends one request.
func sendStep(client *http.Client, base string, s step) (a answered) {
	a.asked, a.began = s, time.Now()
	defer func() { a.ended = time.Now() }()
	resp, err := client.Post(base+s.path, "application/json", bytes.NewReader([]byte(s.body)))
	if err != nil {
		a.err = err
		return a
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	a.reply = reply{status: resp.StatusCode, code: resp.Header.Get("X-SMG-Error-Code"), body: string(body), err: err}
	a.retryAfter = resp.Header.Get("Retry-After")
	return a
}

// completion returns a request for that many tokens. Odd ones stream.
func completion(t *testing.T, i int, prompt string, tokens int) step {
	t.Helper()
	s := step{path: "/v1/completions", stream: i%2 == 1, http: 1}
	s.body = jsonOf(t, map[string]any{"model": "sim-model", "prompt": prompt, "max_tokens": tokens, "ignore_eos": true, "stream": s.stream})
	return s
}

// outcomesOf counts answers by what became of them.
func outcomesOf(all []answered) map[string]int {
	n := map[string]int{}
	for _, a := range all {
		key := a.outcome
		if a.status != http.StatusOK {
			key = fmt.Sprint(a.status, " ", a.code)
		}
		n[key]++
	}
	return n
}

// wantOutcomes wants that nothing became of answers but what is named.
func wantOutcomes(t *testing.T, all []answered, named ...string) {
	t.Helper()
	for outcome, n := range outcomesOf(all) {
		if !slices.Contains(named, outcome) {
			i := slices.IndexFunc(all, func(a answered) bool { return outcomesOf([]answered{a})[outcome] == 1 })
			t.Errorf("%d requests ended as %q, wanted are %q; the first: %v", n, outcome, named, all[i].reply)
		}
	}
}

// scraped returns what the router shows to Prometheus.
func (f *fleet) scraped(t *testing.T) page {
	t.Helper()
	return scrape(t, f.daemon.scrape.Addr().String())
}

// legs returns how many legs were sent to an engine, or how many of them ended
// in one way.
func (p page) legs(url string, outcome ...string) int {
	labels := []string{`worker="` + url + `"`}
	for _, o := range outcome {
		labels = append(labels, `outcome="`+o+`"`)
	}
	return int(p.sum("pdrouter_legs_total", labels...))
}

// wantNoBreakers wants that no breaker is, or ever was, anything but closed. Of
// the engines but those named.
func (p page) wantNoBreakers(t *testing.T, but ...string) {
	t.Helper()
	if !p.has("smg_worker_cb_state") {
		t.Error("no breaker is shown")
	}
	for _, series := range slices.Sorted(maps.Keys(p)) {
		name, labels, _ := strings.Cut(series, "{")
		switch name {
		case "smg_worker_cb_state", "smg_worker_cb_transitions_total", "pdrouter_pair_cb_state", "pdrouter_pair_cb_transitions_total":
			named := slices.ContainsFunc(but, func(url string) bool { return strings.Contains(labels, `"`+url+`"`) })
			if p[series] != 0 && !named {
				t.Errorf("%s = %v, want 0", series, p[series])
			}
		}
	}
}

// breaker returns the state of an engine's breaker.
func (p page) breaker(url string) float64 {
	return p.sum("smg_worker_cb_state", `worker="`+url+`"`)
}

// logged returns the log lines with a message, about an engine if one is named,
// as message and reason.
func (f *fleet) logged(message, url string) (lines []string) {
	for _, e := range f.logs.All() {
		of := e.ContextMap()
		if strings.Contains(e.Message, message) && (url == "" || of["url"] == url || of["decode_url"] == url) {
			lines = append(lines, fmt.Sprint(e.Message, ": ", of["reason"]))
		}
	}
	return lines
}

// bootstrapOf returns where decode engines find a prefill engine.
func bootstrapOf(e *sim.Engine) string { return fmt.Sprint("127.0.0.1:", e.BootstrapPort()) }

package main

import (
	"math"
	"net/http"
	"slices"
	"sync"
	"testing"
	"time"

	"pdrouter/sim"
	"pdrouter/workers"
)

const (
	kvBurst  = 400 // requests at once
	kvLength = 200 // of a prompt, in tokens
	kvAnswer = 200 // tokens on average
	kvRoom   = 20  // requests for which each of two engines has space
	kvToken  = 2 * time.Millisecond
)

// A kvCase is a burst of ten times as many requests as the decode engines' KV
// caches hold.
type kvCase struct {
	name     string
	dialect  string
	interval time.Duration // between two reports; an answer takes 0.4 s
	noLimit  bool          // requests do not say how long answers may be
	warm     int           // requests of the same kind that came before
	routers  int           // each sends its part
	bounded  bool          // in time
}

// ask sends request i to a router. It wants the right answer.
func (k *kvCase) ask(t *testing.T, client *http.Client, base string, i int) {
	body := map[string]any{
		"model": "sim-model", "messages": []any{map[string]any{"role": "user", "content": prompt(i, 4*kvLength)}},
		"min_tokens": kvAnswer*3/4 + i*37%(kvAnswer/2),
	}
	if !k.noLimit {
		body["max_tokens"] = kvAnswer * 3 / 2
	}
	const path = "/v1/chat/completions"
	text := jsonOf(t, body)
	status, answer := post(t, client, base+path, text)
	texts, err := parseAnswer(path, answer)
	if want := expectAll(t, path, text); status != http.StatusOK || err != nil || len(texts) != 1 || texts[0] != want[0] {
		t.Errorf("answer %d = %d %s, want 200 and %q", i, status, answer, want)
	}
}

// start runs the engines and the routers before them.
func (k *kvCase) start(t *testing.T, change func(*Config)) []*fleet {
	config := func(c *Config) {
		c.Workers.LoadInterval = k.interval
		if change != nil {
			change(c)
		}
	}
	first := newFleet(t, fleetPlan{dialect: k.dialect, config: config, engine: func(c *sim.Config) {
		c.BlockSize, c.MaxRunning, c.DecodePerToken = 16, kvBurst, kvToken
		if c.Role == sim.Decode {
			c.KVTokens = kvRoom * (kvLength + kvAnswer + 16)
		}
	}})
	fleets := []*fleet{first}
	for len(fleets) < k.routers {
		cfg := localConfig()
		config(&cfg)
		for _, s := range first.registry.Statuses() {
			cfg.Workers.Specs = append(cfg.Workers.Specs, workers.Spec{Role: s.Worker.Role, URL: s.Worker.URL})
		}
		next := &fleet{}
		next.start(t, cfg)
		fleets = append(fleets, next)
	}
	for _, f := range fleets {
		if !f.cfg.Workers.NoReports && !eventually(func() bool {
			return !slices.ContainsFunc(f.registry.Statuses(), func(s workers.Status) bool { return s.Report.At.IsZero() })
		}) {
			t.Fatal("engines do not report")
		}
	}
	return fleets
}

// run returns how long the burst took.
func (k *kvCase) run(t *testing.T, change func(*Config)) time.Duration {
	fleets, client := k.start(t, change), newClient(t)
	var warm sync.WaitGroup
	for i := range kvRoom {
		warm.Go(func() {
			for n := i; n < k.warm; n += kvRoom {
				k.ask(t, client, fleets[n%len(fleets)].base, kvBurst+n)
			}
		})
	}
	warm.Wait()
	drift := watchKV(fleets[0])
	began := time.Now()
	var all sync.WaitGroup
	for i := range kvBurst {
		all.Go(func() { k.ask(t, client, fleets[i%len(fleets)].base, i) })
	}
	all.Wait()
	took := time.Since(began)
	off, used := drift()
	t.Logf("%v; engines in use to %.2f on average, the ledger off by %.3f in the middle, %.3f at 99 %%", took.Round(time.Millisecond), used, at(off, 0.5), at(off, 0.99))
	for _, e := range fleets[0].decode {
		if n := e.Stats().Preemptions; n > 0 && !fleets[0].cfg.Workers.NoReports {
			t.Errorf("%s preempted %d times", e.URL(), n)
		}
	}
	return took
}

// watchKV compares what the router believes with what engines hold, every 20 ms,
// until it is called off. It returns the differences, and how full the engines
// were on average, as shares of their capacity.
func watchKV(f *fleet) (end func() (off []float64, used float64)) {
	stop, ended := make(chan struct{}), make(chan struct{})
	var all []float64
	full := 0.0
	go func() {
		defer close(ended)
		tick := time.NewTicker(20 * time.Millisecond)
		defer tick.Stop()
		for {
			select {
			case <-stop:
				return
			case <-tick.C:
			}
			for _, e := range f.decode {
				before := e.Stats()
				used := f.believedUsed(e.URL())
				after := e.Stats()
				if math.IsNaN(used) {
					continue
				}
				capacity := float64(before.CapacityTokens)
				all = append(all, beyond(used, float64(before.UsedTokens), float64(after.UsedTokens))/capacity)
				full += float64(after.UsedTokens) / capacity
			}
		}
	}()
	return func() ([]float64, float64) {
		close(stop)
		<-ended
		slices.Sort(all)
		return all, full / float64(max(len(all), 1))
	}
}

// believedUsed returns how many tokens of KV the router believes a decode engine
// has in use; NaN if it does not know.
func (f *fleet) believedUsed(url string) float64 {
	for _, s := range f.registry.Statuses() {
		if s.Worker.URL == url {
			return s.KVSpace.Used
		}
	}
	return math.NaN()
}

// beyond returns how far v is from what lies between two others.
func beyond(v, a, b float64) float64 { return max(min(a, b)-v, v-max(a, b), 0) }

// at returns what a share of sorted values is at most.
func at(sorted []float64, share float64) float64 {
	if len(sorted) == 0 {
		return math.NaN()
	}
	return sorted[int(share*float64(len(sorted)-1))]
}

// knownRoom returns how long the burst takes if it is known beforehand how many
// requests engines have space for.
func knownRoom(t *testing.T, dialect string) (took time.Duration) {
	t.Run("known beforehand, "+dialect, func(t *testing.T) {
		k := kvCase{dialect: dialect, interval: time.Second, routers: 1}
		took = k.run(t, func(c *Config) {
			c.Workers.NoReports, c.Workers.Admission.MaxInFlight = true, 2*kvRoom
		})
	})
	return took
}

// A burst waits in the router for space: none fails, no engine preempts, and it
// takes about as long as where the room is known. What takes much longer is
// tried once more, as others use this machine too.
func TestBurstWaitsForSpace(t *testing.T) {
	if testing.Short() {
		t.Skip("takes a minute")
	}
	known := map[string]time.Duration{sim.SGLang: knownRoom(t, sim.SGLang), sim.VLLMNixl: knownRoom(t, sim.VLLMNixl)}
	for _, k := range []kvCase{
		{"reports of now", sim.SGLang, 200 * time.Millisecond, false, 0, 1, true},
		{"reports of now", sim.VLLMNixl, 200 * time.Millisecond, false, 0, 1, true},
		{"old reports", sim.SGLang, time.Second, false, 100, 1, true},
		{"old reports, no limit", sim.VLLMNixl, time.Second, true, 100, 1, true},
		{"no limit, nothing learnt", sim.VLLMNixl, 200 * time.Millisecond, true, 0, 1, false},
		{"a second router", sim.SGLang, 200 * time.Millisecond, false, 100, 2, true},
		{"a second router, nothing learnt", sim.VLLMNixl, 200 * time.Millisecond, false, 0, 2, false},
	} {
		least := kvBurst / (2 * kvRoom) * kvAnswer * kvToken
		measure := func(known time.Duration) (times float64) {
			t.Run(k.name+", "+k.dialect, func(t *testing.T) {
				took := k.run(t, nil)
				times = float64(took) / float64(known)
				t.Logf("%.2f times as long as where the room is known, %.2f times the least", times, float64(took)/float64(least))
			})
			return times
		}
		if times := measure(known[k.dialect]); k.bounded && times > 1.5 {
			if times = measure(knownRoom(t, k.dialect)); times > 1.5 {
				t.Errorf("%s: twice %.2f times as long as where the room is known", k.name, times)
			}
		}
	}
}

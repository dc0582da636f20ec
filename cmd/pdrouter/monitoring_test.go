package main

import (
	"fmt"
	"maps"
	"math"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"pdrouter/sim"
)

// A monitored is a fleet, and a Prometheus that reads it with the configuration
// and the rules that we ship; it only looks more often, and its alerts do not wait
// and promise more.
type monitored struct {
	*fleet
	prom   realPrometheus
	t      *testing.T
	speaks string // the engines' dialect
	client *http.Client
	left   map[string]string // expressions that have not had a value yet, by where they stand
}

const (
	monitoredKV    = 20_000 // tokens of a decode engine
	monitoredSlots = 24     // requests under way at most
	monitoredLine  = 8      // requests that may wait
)

func newMonitored(t *testing.T, dialect string) *monitored {
	dir := t.TempDir()
	sd := filepath.Join(dir, "engines.json")
	m := &monitored{t: t, speaks: dialect, client: newClient(t), left: map[string]string{}}
	m.fleet = newFleet(t, fleetPlan{
		dialect: dialect,
		engine: func(c *sim.Config) {
			c.BlockSize, c.MaxRunning, c.PrefillPerToken, c.DecodePerToken = 16, 256, 20*time.Microsecond, 2*time.Millisecond
			c.HandshakeTimeout = 100 * time.Millisecond
			if c.Role == sim.Decode {
				c.KVTokens = monitoredKV
			}
		},
		config: func(c *Config) {
			c.TargetsFile, c.DecodePolicy = sd, "random" // so that every pair is tried
			c.Workers.LoadInterval = 200 * time.Millisecond
			c.Health.FailureThreshold, c.Health.OpenTime = 5, time.Minute // more than one request has of a worker
			c.Router.Retries.Backoff = time.Millisecond
			c.Workers.Admission.MaxInFlight, c.Workers.Admission.QueueSize = monitoredSlots, monitoredLine
		},
	})
	m.client.Timeout = 2 * time.Minute // nobody leaves unless told to
	rules, err := filepath.Glob(shipped + "prometheus/rules/*.yml")
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range rules {
		text := regexp.MustCompile(`(?m)^ +for: .*\n`).ReplaceAllString(string(readFile(t, file)), "")
		text = strings.ReplaceAll(text, "vector(0.99)", "vector(0.99999)")
		if err := os.WriteFile(filepath.Join(dir, filepath.Base(file)), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	m.prom = runPrometheus(t, strings.NewReplacer(
		"127.0.0.1:29001", m.daemon.scrape.Addr().String(),
		"/run/pdrouter/engines.json", sd,
		"rules/*.yml", filepath.Join(dir, "*.yml"),
		"scrape_interval: 15s", "scrape_interval: 1s", "scrape_interval: 5s", "scrape_interval: 1s",
		"evaluation_interval: 15s", "evaluation_interval: 500ms",
	).Replace(string(readFile(t, shipped+"prometheus/prometheus.yml"))))
	for _, q := range questions(t) {
		if !slices.Contains(untold(dialect), q.where) {
			m.left[q.where] = q.expr
		}
	}
	return m
}

// ask is of a Prometheus that has started.
func (m *monitored) ask(expr string) []sample {
	all, _ := m.prom.ask(m.t, expr)
	return all
}

// see strikes out what has a value now.
func (m *monitored) see() {
	for where, expr := range m.left {
		if slices.ContainsFunc(m.ask(expr), func(s sample) bool { return !math.IsNaN(s.value) }) {
			delete(m.left, where)
		}
	}
}

// sees waits until all that a wake is to wake has a value.
func (m *monitored) sees(wake string) {
	m.t.Helper()
	waits := func() (all []string) {
		for where := range m.left {
			if sleepers()[where] == wake {
				all = append(all, where)
			}
		}
		return all
	}
	for tries := 0; !eventually(func() bool { m.see(); return len(waits()) == 0 }); tries++ {
		if tries == 2 {
			if wake != wakeDown {
				m.skipIfSlow()
			}
			for _, where := range waits() {
				m.t.Errorf("%q: %s has no value: %s", wake, where, m.left[where])
				delete(m.left, where)
			}
			m.t.Logf("breakers: %v; of the router's log: %q", m.ask("smg_worker_cb_state"), m.logged("breaker", ""))
		}
	}
}

// skipIfSlow ends the test on a machine so busy that of ten scrapes one comes to
// nothing: then nothing is shown by what Prometheus does not know.
func (m *monitored) skipIfSlow() {
	m.t.Helper()
	if up := m.ask(`avg_over_time(up{job="pdrouter"}[1m])`); len(up) != 1 || up[0].value < 0.9 {
		m.t.Skipf("this machine is too slow: scrapes %v", up)
	}
}

// What wakes an expression that is silent while all is well.
const (
	wakeNothing  = "" // it is not silent
	wakeBurst    = "more come than may wait"
	wakeFills    = "answers grow fast"
	wakeFull     = "the KV caches of decode are full"
	wakeSick     = "a decode engine fails"
	wakeAllSick  = "all decode engines fail"
	wakeInVain   = "all prefill engines fail"
	wakeCutOff   = "a decode engine cannot reach a prefill engine"
	wakeStranger = "a worker is added where nobody listens"
	wakeDrain    = "all decode workers drain"
	wakeSlow     = "first tokens come late, and what follows slowly"
	wakeDown     = "the router stops"
	wakeTime     = "more time than a test has: see deploy/prometheus/tests"
	wakeOthers   = "somebody else sends prompts to a decode engine"
)

// sleepers are the expressions that are silent while all is well.
func sleepers() map[string]string {
	return map[string]string{
		"alert PdrouterKVFilling":          wakeFull,
		"alert PdrouterKVFull":             wakeFull,
		"alert PdrouterKVFullSoon":         wakeFills,
		"alert PdrouterPreemptions":        wakeOthers,
		"alert PdrouterLedgerDrift":        wakeTime,
		"alert PdrouterReportsStale":       wakeStranger,
		"alert PdrouterBreakerOpen":        wakeSick,
		"alert PdrouterPairBreakerOpen":    wakeCutOff,
		"alert PdrouterRoleOpen":           wakeAllSick,
		"alert PdrouterRoleMissing":        wakeDrain,
		"alert PdrouterWorkerUnready":      wakeStranger,
		"alert PdrouterWorkerRemoved":      wakeTime,
		"alert PdrouterDown":               wakeDown,
		"alert PdrouterHandoffFailures":    wakeAllSick,
		"alert PdrouterRecompute":          wakeOthers,
		"alert PdrouterShedding":           wakeBurst,
		"alert PdrouterTTFTBurnFast":       wakeSlow,
		"alert PdrouterTTFTBurnSlow":       wakeSlow,
		"alert PdrouterITLBurnFast":        wakeSlow,
		"alert PdrouterITLBurnSlow":        wakeSlow,
		"panel Time in line (p95)/A":       wakeBurst,
		"panel Refused/A":                  wakeBurst,
		"panel Breakers/B":                 wakeCutOff,
		"panel Legs that failed/A":         wakeSick,
		"panel Attempts after the first/A": wakeSick,
		"panel Attempts after the first/B": wakeInVain,
	}
}

// untold are the expressions that have no value with one dialect, because its
// engines do not tell, or not before it has happened. The other one proves them.
func untold(dialect string) []string {
	if dialect == sim.VLLMNixl {
		return []string{"panel Kept for reuse, in tokens/A"}
	}
	return []string{
		"panel Prompt tokens on decode/A", "panel Transfers of KV/B", "panel Transfers of KV/C", "panel Preemptions/A",
		"alert PdrouterPreemptions", "alert PdrouterRecompute",
	}
}

// load has eight clients ask, of which half stream, until all that is not silent
// has a value, and returns how many requests there were.
func (m *monitored) load() (requests int) {
	c := newCrowd(m.t, m.base, 8, func(i int) step { return completion(m.t, i, prompt(i%8, 4*500), 20) })
	m.tell(0, func() []truth { // a Prometheus that has just begun believes that nobody is there
		return []truth{{"pdrouter:worker:ready", by(m.engines(), func(sim.Stats) float64 { return 1 })}}
	})
	m.sees(wakeNothing)
	for where, wake := range sleepers() {
		if _, silent := m.left[where]; !silent && wake != wakeSlow && !slices.Contains(untold(m.speaks), where) {
			m.t.Errorf("%s is no sleeper: it has a value while all is well", where)
		}
	}
	all := c.disperse()
	wantOutcomes(m.t, all, wholeAnswer)
	return len(all)
}

// A truth is what an expression is to say of each worker, or, under "", of all.
type truth struct {
	expr string
	want map[string]float64
}

// by returns what of says of each engine.
func by(engines []*sim.Engine, of func(sim.Stats) float64) map[string]float64 {
	all := map[string]float64{}
	for _, e := range engines {
		all[e.URL()] = of(e.Stats())
	}
	return all
}

// tell waits until Prometheus says the truth, give or take a part of it.
func (m *monitored) tell(within float64, truths func() []truth) {
	m.t.Helper()
	var wrong []string
	said := func() bool {
		wrong = nil
		for _, tr := range truths() {
			got := map[string]float64{}
			for _, s := range m.ask(tr.expr) {
				got[s.labels["worker"]] = s.value
			}
			same := func(a, b float64) bool { return math.Abs(a-b) <= within*math.Abs(b) }
			if !maps.EqualFunc(got, tr.want, same) {
				wrong = append(wrong, fmt.Sprintf("%s = %v, want %v", tr.expr, got, tr.want))
			}
		}
		return len(wrong) == 0
	}
	for range 3 {
		if eventually(said) {
			return
		}
	}
	m.skipIfSlow()
	for _, w := range wrong {
		m.t.Error(w)
	}
}

// atRest is what there is to tell when all requests have ended.
func (m *monitored) atRest(requests int) []truth {
	all := float64(requests)
	sum := func(engines []*sim.Engine, of func(sim.Stats) float64) (n map[string]float64) {
		n = map[string]float64{"": 0}
		for _, v := range by(engines, of) {
			n[""] += v
		}
		return n
	}
	zero := func(sim.Stats) float64 { return 0 }
	one := func(sim.Stats) float64 { return 1 }
	return []truth{
		{"pdrouter_worker_kv_capacity_tokens", by(m.engines(), func(s sim.Stats) float64 { return float64(s.CapacityTokens) })},
		{"pdrouter_worker_kv_used_tokens", by(m.engines(), zero)},
		{"smg_worker_requests_active", by(m.engines(), zero)},
		{"pdrouter:worker:info", by(m.engines(), one)},
		{"pdrouter:worker:ready", by(m.engines(), one)},
		{"pdrouter:worker:breaker_open", by(m.engines(), zero)},
		{`pdrouter_worker_prefix_cache_hits_total{role="prefill"}`, by(m.prefill, func(s sim.Stats) float64 { return float64(s.HitTokens) })},
		{`pdrouter_worker_prefix_cache_queries_total{role="prefill"}`, by(m.prefill, func(s sim.Stats) float64 { return float64(s.QueriedTokens) })},
		{`sum(pdrouter_prefill_hit_tokens_total{kind="observed"})`, sum(m.prefill, func(s sim.Stats) float64 { return float64(s.HitTokens) })},
		{"sum(smg_router_requests_total)", map[string]float64{"": all}},
		{`sum(smg_http_responses_total{status_code="200",path="/v1/completions"})`, map[string]float64{"": all}},
		{`sum(pdrouter_answer_ends_total{end="complete"})`, map[string]float64{"": all}},
		{`sum(pdrouter_handoffs_total{outcome="done"})`, map[string]float64{"": all}},
		{`sum(pdrouter_ttft_seconds_count)`, map[string]float64{"": math.Floor(all / 2)}},
		{`pdrouter_worker_engine_generated_tokens_total{role="decode"}`, by(m.decode, func(s sim.Stats) float64 { return float64(s.DecodedTokens) })},
		{`sum(pdrouter_worker_engine_transfers_total >= 0)`, map[string]float64{"": all}},
		{`pdrouter_worker_draining`, by(m.engines(), zero)},
		{`count by (worker) (up{job="pdrouter-engines"} == 1)`, by(m.engines(), one)},
	}
}

// whenFull is what there is to tell while decode engines hold requests.
func (m *monitored) whenFull() []truth {
	used := func(s sim.Stats) float64 { return float64(s.UsedTokens) }
	capacity, all := 0.0, 0.0
	for _, e := range m.decode {
		capacity, all = capacity+float64(e.Stats().CapacityTokens), all+used(e.Stats())
	}
	return []truth{
		{`pdrouter_worker_kv_used_tokens{role="decode"}`, by(m.decode, used)},
		{`pdrouter_worker_kv_usage_ratio{role="decode"}`, by(m.decode, func(s sim.Stats) float64 { return used(s) / float64(s.CapacityTokens) })},
		{`pdrouter:role:kv_usage_ratio{role="decode"}`, map[string]float64{"": all / capacity}},
		{`pdrouter_worker_engine_running_requests{role="decode"}`, by(m.decode, func(s sim.Stats) float64 { return float64(s.Running) })},
	}
}

// many sends requests side by side, whatever becomes of them, and returns what
// waits for their ends.
func (m *monitored) many(n int, of func(i int) step) (wait func()) {
	var wg sync.WaitGroup
	for i := range n {
		wg.Go(func() { sendStep(m.client, m.base, of(i)) })
	}
	return wg.Wait
}

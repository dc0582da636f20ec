package metrics

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// An admission counts what happens to requests before they have a pair.
type admission struct {
	rejected *prometheus.CounterVec
	pdWaits  prometheus.Counter
	pdSheds  prometheus.Counter
	sheds    *prometheus.CounterVec
	wait     *prometheus.HistogramVec
	claims   *prometheus.CounterVec
	admits   *prometheus.CounterVec
	overload *prometheus.CounterVec
}

func newAdmission(reg prometheus.Registerer) admission {
	a := admission{
		rejected: counters("smg_admission_queue_rejected_total", "Requests rejected at admission by reason (full/timeout)", "reason"),
		pdWaits:  counter("smg_pd_admission_waits_total", "Requests that waited for room on a decode worker."),
		pdSheds:  counter("smg_pd_admission_sheds_total", "Requests that were refused because no decode worker had room for them."),
		sheds:    counters("pdrouter_admission_sheds_total", "Requests that were refused, by what they lacked and why: too many waited (full), or they had waited too long (timeout).", "for", "reason"),
		wait: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "pdrouter_admission_wait_seconds", Help: "Time that requests stood in line, of those that had to, by what they lacked and what became of them.",
			Buckets: []float64{0.001, 0.01, 0.05, 0.1, 0.5, 1, 2.5, 5, 10, 30, 60},
		}, []string{"for", "end"}),
		claims: counters("pdrouter_priority_claims_total", "Requests that claim a class, by whether they got it (honoured), a lower one (capped), or said nothing that is one (unknown).", "claim"),
	}
	a.admits = counters("smg_scheduler_admit_total", "Requests by class and by what became of them in the line for a pair; retries do not count.", "class", "outcome")
	a.overload = counters("smg_worker_overload_shed_total", "Requests that were refused because no decode worker had room for them.", "stage")
	a.overload.WithLabelValues("pd_admission")
	for _, reason := range []string{full, timeout} {
		a.rejected.WithLabelValues(reason)
	}
	for _, c := range []Claim{Honoured, Capped, Unknown} {
		a.claims.WithLabelValues(string(c))
	}
	reg.MustRegister(a.rejected, a.pdWaits, a.pdSheds, a.sheds, a.wait, a.claims, a.admits, a.overload)
	return a
}

// The values of the label reason.
const (
	full    = "full"
	timeout = "timeout"
)

// A WaitEnd is what became of a request that stood in line.
type WaitEnd string

// The ends.
const (
	WaitAdmitted WaitEnd = "admitted"
	WaitShed     WaitEnd = "shed"
	WaitLeft     WaitEnd = "left" // the client did, or no pair was left
)

// decodeRoom is the shortage that smg counts apart.
const decodeRoom = "decode"

// Waited counts a request that stood in line, by what it lacked: "slots",
// "prefill" or "decode".
func (m *Metrics) Waited(lacked string, end WaitEnd, d time.Duration) {
	m.admission.wait.WithLabelValues(lacked, string(end)).Observe(d.Seconds())
	if lacked == decodeRoom {
		m.admission.pdWaits.Inc()
	}
}

// Shed counts a request that was refused, by what it lacked.
func (m *Metrics) Shed(lacked string, timedOut bool) {
	reason := full
	if timedOut {
		reason = timeout
	}
	m.admission.rejected.WithLabelValues(reason).Inc()
	m.admission.sheds.WithLabelValues(lacked, reason).Inc()
	if lacked == decodeRoom {
		m.admission.pdSheds.Inc()
		m.admission.overload.WithLabelValues("pd_admission").Inc()
	}
}

// An Admission is what became of a request in the line for a pair, in smg's words.
type Admission string

// The admissions.
const (
	Admitted        Admission = "admitted"
	RejectedFull    Admission = "rejected_queue_full"
	RejectedTimeout Admission = "rejected_queue_timeout"
	ClientCancelled Admission = "client_cancelled"
)

// Admission counts a request of a class that came out of the line.
func (m *Metrics) Admission(class string, a Admission) {
	m.admission.admits.WithLabelValues(class, string(a)).Inc()
}

// A Claim is what came of a client's word on how urgent its request is.
type Claim string

// The claims.
const (
	Honoured Claim = "honoured"
	Capped   Claim = "capped"
	Unknown  Claim = "unknown"
)

// Claimed counts a request that claims a class.
func (m *Metrics) Claimed(c Claim) { m.admission.claims.WithLabelValues(string(c)).Inc() }

// A Crowd is how many requests are under way and how many wait, by what they
// lack and by class.
type Crowd struct {
	Open    int
	Limit   int // of Open; 0: there is none
	Waiting int
	Lacking map[string]int
	Classes map[string]int
}

// crowdDescs are the gauges of a Crowd.
type crowdDescs struct{ depth, inflight, utilization, lacking, classes, smgClasses *prometheus.Desc }

func newCrowdDescs() crowdDescs {
	return crowdDescs{
		depth:       prometheus.NewDesc("smg_admission_queue_depth", "Requests currently parked in the admission queue", nil, nil),
		inflight:    prometheus.NewDesc("smg_admission_inflight", "Requests currently holding an admission token", nil, nil),
		utilization: prometheus.NewDesc("smg_scheduler_utilization", "Requests that have a pair, as a share of --max-concurrent-requests; NaN without that.", nil, nil),
		smgClasses:  prometheus.NewDesc("smg_scheduler_queue_depth", "Requests that wait for a pair, by class; the same as pdrouter_admission_waiting_requests.", []string{"class"}, nil),
		lacking:     prometheus.NewDesc("pdrouter_lease_waiting_requests", "Requests that wait for a pair, by what they lack: a slot, a prefill worker that is free or about to be, or room on decode.", []string{"for"}, nil),
		classes:     prometheus.NewDesc("pdrouter_admission_waiting_requests", "Requests that wait for a pair, by class; retries wait apart.", []string{"class"}, nil),
	}
}

func (d *crowdDescs) collect(out chan<- prometheus.Metric, c Crowd) {
	out <- gauge(d.depth, float64(c.Waiting))
	out <- gauge(d.inflight, float64(c.Open))
	out <- gauge(d.utilization, ratio(float64(c.Open), float64(c.Limit)))
	for lack, n := range c.Lacking {
		out <- gauge(d.lacking, float64(n), lack)
	}
	for class, n := range c.Classes {
		out <- gauge(d.classes, float64(n), class)
		out <- gauge(d.smgClasses, float64(n), class)
	}
}

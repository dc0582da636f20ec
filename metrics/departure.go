package metrics

import "github.com/prometheus/client_golang/prometheus"

// A Phase is how far a request had come, in the words of package record.
type Phase string

// phases are all phases, in their order.
func phases() []Phase { return []Phase{"accept", "admit", "prefill", "hand-off", "relay"} }

func newDepartures(reg prometheus.Registerer) *prometheus.CounterVec {
	c := counters("pdrouter_client_departures_total",
		"Clients that left before their answer was complete, by phase: accept (the request was being read), admit (it waited for a pair), prefill, "+
			"hand-off (prefill had answered; an answer in JSON is in it to its end) or relay (tokens came).", "phase")
	for _, p := range phases() {
		c.WithLabelValues(string(p))
	}
	reg.MustRegister(c)
	return c
}

// Departed counts a client that left.
func (m *Metrics) Departed(p Phase) { m.departures.WithLabelValues(string(p)).Inc() }

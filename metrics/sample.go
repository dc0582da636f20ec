package metrics

import (
	"math"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
)

// A sample is one value at the moment of a scrape. Samples of one worker share
// their labels: with 128 workers there are thousands of them in each scrape.
type sample struct {
	desc   *prometheus.Desc
	kind   prometheus.ValueType
	labels []*dto.LabelPair
	value  float64
}

// Desc implements prometheus.Metric.
func (s *sample) Desc() *prometheus.Desc { return s.desc }

// Write implements prometheus.Metric.
func (s *sample) Write(out *dto.Metric) error {
	out.Label = s.labels
	if s.kind == prometheus.CounterValue {
		out.Counter = &dto.Counter{Value: &s.value}
	} else {
		out.Gauge = &dto.Gauge{Value: &s.value}
	}
	return nil
}

func gauge(desc *prometheus.Desc, v float64, labels ...string) prometheus.Metric {
	return &sample{desc, prometheus.GaugeValue, prometheus.MakeLabelPairs(desc, labels), v}
}

func count(desc *prometheus.Desc, n uint64, labels ...string) prometheus.Metric {
	return &sample{desc, prometheus.CounterValue, prometheus.MakeLabelPairs(desc, labels), float64(n)}
}

func oneIf(is bool) float64 {
	if is {
		return 1
	}
	return 0
}

// ratio returns a / b; NaN if either is not known, or b is nothing.
func ratio(a, b float64) float64 {
	if !(b > 0) {
		return math.NaN()
	}
	return a / b
}

package metrics

import (
	"math"

	"github.com/prometheus/client_golang/prometheus"
)

func gauge(desc *prometheus.Desc, v float64, labels ...string) prometheus.Metric {
	return prometheus.MustNewConstMetric(desc, prometheus.GaugeValue, v, labels...)
}

func count(desc *prometheus.Desc, n uint64, labels ...string) prometheus.Metric {
	return prometheus.MustNewConstMetric(desc, prometheus.CounterValue, float64(n), labels...)
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

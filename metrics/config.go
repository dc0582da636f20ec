package metrics

import (
	"fmt"
	"slices"
)

// Config holds what an operator may set about the metrics.
type Config struct {
	// DurationBuckets are the bounds of the histograms of durations, in
	// seconds, ascending. Default: smg's.
	DurationBuckets []float64

	// PrefillPolicy and DecodePolicy are the names of the policies in use,
	// which are labels. They are not set by themselves.
	PrefillPolicy, DecodePolicy string
}

// DefaultConfig returns the configuration of a daemon started without flags.
func DefaultConfig() Config {
	return Config{DurationBuckets: []float64{
		0.001, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 15, 30, 45, 60, 90,
		120, 180, 240, 300, 480, 900, 1200, 1800, 2700, 3600, 5400, 7200,
	}}
}

// Validate reports every fault of c.
func (c Config) Validate() error {
	if len(c.DurationBuckets) == 0 || !slices.IsSortedFunc(c.DurationBuckets, func(a, b float64) int {
		if a < b {
			return -1
		}
		return 1
	}) {
		return fmt.Errorf("prometheus-duration-buckets: must be ascending, are %v", c.DurationBuckets)
	}
	return nil
}

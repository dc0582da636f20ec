package health

import (
	"errors"
	"fmt"
	"strings"
	"time"
)

// Config holds what an operator may set about who is fit to take requests.
type Config struct {
	// FailureThreshold is after how many failures in a row a breaker opens.
	// Default 10 (--cb-failure-threshold).
	FailureThreshold int

	// SuccessThreshold is how many trials in a row must succeed before a
	// half-open breaker closes. Default 3 (--cb-success-threshold).
	SuccessThreshold int

	// OpenTime is how long a breaker stays open at first. It doubles with each
	// opening that follows without a closing in between, to 5 minutes at most
	// (or OpenTime, if that is longer). Default 60 s
	// (--cb-timeout-duration-secs).
	OpenTime time.Duration

	// Window is how long a failure counts, to a tenth of it. Default 120 s
	// (--cb-window-duration-secs).
	Window time.Duration

	// FailureRatio is the part of the outcomes within Window that must be
	// failures for a breaker to open even though they do not come in a row; it
	// is looked at from MinRequests outcomes on. 0: never. Default 0.8: a worker
	// that fails four of five requests is of no use, but one client that sends
	// every other request with a grammar the engine chokes on (a 500, though it
	// is the client's doing) must not take it from all others
	// (--cb-failure-ratio).
	FailureRatio float64

	// MinRequests is that number of outcomes. Default 20: twice
	// FailureThreshold, so that the ratio never decides sooner than it
	// (--cb-min-requests).
	MinRequests int

	// DisableBreakers leaves all breakers closed (--disable-circuit-breaker).
	DisableBreakers bool

	// StallTime is for how long a worker must have been silent (no outcome, no
	// report, no probe answered) for one failed connection to bar it. 0: that
	// never bars. Default 2 s (--worker-stall-secs).
	StallTime time.Duration

	// WedgeTime is for how long a worker with requests under way may go without
	// any progress before it is barred. 0: for ever. Default 3 s
	// (--worker-wedge-secs).
	WedgeTime time.Duration

	// StaleTime is for how long a worker whose reports are missing may give no
	// other sign of life either before it is barred. 0: for ever. Default 15 s
	// (--worker-stale-secs).
	StaleTime time.Duration

	// ProbePath is what probes GET. Default "/health"
	// (--health-check-endpoint).
	ProbePath string

	// ProbeInterval is the time between two probes of a worker. Default 60 s
	// (--health-check-interval-secs).
	ProbeInterval time.Duration

	// ProbeTimeout bounds one probe. Default 5 s (--health-check-timeout-secs).
	ProbeTimeout time.Duration

	// ProbeFailures is how many probes in a row must fail for a worker to be
	// barred. Default 3 (--health-failure-threshold).
	ProbeFailures int

	// ProbeSuccesses is how many must succeed for it to be let in again.
	// Default 2 (--health-success-threshold).
	ProbeSuccesses int

	// DisableProbes sends none (--disable-health-check).
	DisableProbes bool

	// CanaryInterval is for how long a pair must have had no request to be sent
	// a canary, and the time from one canary to the next. Default 0: none is
	// sent (--canary-interval).
	CanaryInterval time.Duration
}

// DefaultConfig returns the configuration of a daemon started without flags.
func DefaultConfig() Config {
	return Config{
		FailureThreshold: 10,
		SuccessThreshold: 3,
		OpenTime:         time.Minute,
		Window:           2 * time.Minute,
		FailureRatio:     0.8,
		MinRequests:      20,
		StallTime:        2 * time.Second,
		WedgeTime:        3 * time.Second,
		StaleTime:        15 * time.Second,
		ProbePath:        "/health",
		ProbeInterval:    time.Minute,
		ProbeTimeout:     5 * time.Second,
		ProbeFailures:    3,
		ProbeSuccesses:   2,
	}
}

// Validate reports every fault of c.
func (c Config) Validate() error {
	var faults []error
	for _, f := range []struct {
		flag string
		n    int
	}{
		{"cb-failure-threshold", c.FailureThreshold},
		{"cb-success-threshold", c.SuccessThreshold},
		{"cb-min-requests", c.MinRequests},
		{"health-failure-threshold", c.ProbeFailures},
		{"health-success-threshold", c.ProbeSuccesses},
	} {
		if f.n < 1 {
			faults = append(faults, fmt.Errorf("%s: must be at least 1, is %d", f.flag, f.n))
		}
	}
	for _, f := range []struct {
		flag  string
		d     time.Duration
		least time.Duration
	}{
		{"cb-timeout-duration-secs", c.OpenTime, 1},
		{"cb-window-duration-secs", c.Window, time.Second},
		{"health-check-interval-secs", c.ProbeInterval, 1},
		{"health-check-timeout-secs", c.ProbeTimeout, 1},
		{"worker-stall-secs", c.StallTime, 0},
		{"worker-wedge-secs", c.WedgeTime, 0},
		{"worker-stale-secs", c.StaleTime, 0},
		{"canary-interval", c.CanaryInterval, 0},
	} {
		if f.d < f.least {
			faults = append(faults, fmt.Errorf("%s: %v is too short", f.flag, f.d))
		}
	}
	if !(c.FailureRatio >= 0 && c.FailureRatio <= 1) {
		faults = append(faults, fmt.Errorf("cb-failure-ratio: must be between 0 and 1, is %v", c.FailureRatio))
	}
	if !strings.HasPrefix(c.ProbePath, "/") || strings.ContainsAny(c.ProbePath, " \t\r\n") {
		faults = append(faults, fmt.Errorf("health-check-endpoint: must be a path that begins with /, is %q", c.ProbePath))
	}
	return errors.Join(faults...)
}

package health

import (
	"math"
	"strings"
	"testing"
)

func TestValidateReportsEveryFault(t *testing.T) {
	if err := DefaultConfig().Validate(); err != nil {
		t.Errorf("the default configuration: %v", err)
	}
	err := Config{FailureRatio: math.NaN(), StallTime: -1, WedgeTime: -1, StaleTime: -1, CanaryInterval: -1, ProbePath: "health"}.Validate()
	if err == nil {
		t.Fatal("Validate = nil")
	}
	for _, flag := range []string{
		"cb-failure-threshold", "cb-success-threshold", "cb-timeout-duration-secs", "cb-window-duration-secs", "cb-failure-ratio", "cb-min-requests",
		"health-check-endpoint", "health-check-interval-secs", "health-check-timeout-secs", "health-failure-threshold", "health-success-threshold",
		"worker-stall-secs", "worker-wedge-secs", "worker-stale-secs", "canary-interval",
	} {
		if !strings.Contains(err.Error(), flag) {
			t.Errorf("the fault of %s is not reported: %v", flag, err)
		}
	}
}

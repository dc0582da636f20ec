package policy

import (
	"errors"
	"fmt"
	"time"
)

// Config is what an operator may set of the policies. None of it has to be
// set: what matters is learnt from traffic.
type Config struct {
	// MaxBlocks bounds the blocks of the prefix index, over all workers. Each
	// gets an equal part at most, and what its engine can hold if that is
	// less. A block takes 22 to 27 bytes.
	MaxBlocks int

	// Hold is for how long cache_aware may keep a request back for a worker
	// that will be free soon. 0: it sends each on at once.
	Hold time.Duration

	// BlockBytes is the length of a block of the fingerprint. 0: it begins with
	// the constant BlockBytes and is fitted to the engines.
	BlockBytes int

	LoadFactor    float64       // of prefix_hash and consistent_hashing: load above the average that affinity may cause, at least 1
	BalanceBelow  int           // of prefix_hash: load up to which that bound does not hold
	KVWeight      float64       // of least_load: weight of KV use against load
	Throughput    float64       // of least_load: tokens per second of a worker that is not known
	PromptTokens  float64       // of least_load: length of a prompt that is not known
	MaxWaiting    int           // of least_load: requests waiting in an engine from which it is left out; 0: never
	Metric        string        // of power_of_two: expected_wait, requests or least_requests
	AdjustBuckets time.Duration // of bucket: time between adjustments
	BalanceAbs    int           // of bucket: gap of load that ends affinity, if BalanceRel does too
	BalanceRel    float64       // of bucket: ratio of load
	MaxIdle       time.Duration // of manual: how long an unused key is remembered
	MaxKeys       int           // of manual: how many keys are remembered
	Assignment    string        // of manual: where a new key goes: random, min_load, min_group, or delegate, which is random unless Override
	Override      bool          // whether manual has requests with a key, whatever the policy
	Seed          uint64        // of what is random
	Branches      *Branches     // count choices; nil: nobody does
}

// DefaultConfig returns the defaults; those of smg's policies are smg's.
func DefaultConfig() Config {
	return Config{
		MaxBlocks: 4 << 20, Hold: 4 * time.Second,
		LoadFactor: 1.25, BalanceBelow: 10,
		KVWeight: 0.15, Throughput: 2000, PromptTokens: 1024,
		Metric:        "expected_wait",
		AdjustBuckets: 5 * time.Second, BalanceAbs: 64, BalanceRel: 1.5,
		MaxIdle: 4 * time.Hour, MaxKeys: 1 << 17, Assignment: "random",
		Seed: 1,
	}
}

// Validate reports all that is wrong.
func (c Config) Validate() error {
	var faults []error
	wrong := func(is bool, format string, args ...any) {
		if is {
			faults = append(faults, fmt.Errorf(format, args...))
		}
	}
	wrong(c.MaxBlocks < 0, "max-index-blocks: %d is below 0", c.MaxBlocks)
	wrong(c.Hold < 0, "prefill-hold: %v is below 0", c.Hold)
	wrong(c.BlockBytes < 0, "block of %d bytes", c.BlockBytes)
	wrong(!(c.LoadFactor >= 1), "prefix-hash-load-factor: %v is below 1", c.LoadFactor)
	wrong(c.BalanceBelow < 0, "prefix-hash-balance-abs-threshold: %d is below 0", c.BalanceBelow)
	wrong(!(c.KVWeight >= 0), "least-load-kv-pressure-weight: %v is below 0", c.KVWeight)
	wrong(!(c.Throughput > 0), "least-load-default-throughput: %v is not above 0", c.Throughput)
	wrong(!(c.PromptTokens > 0), "least-load-mean-prefill-tokens: %v is not above 0", c.PromptTokens)
	wrong(c.MaxWaiting < 0, "least-load-max-waiting-requests: %d is below 0", c.MaxWaiting)
	wrong(c.BalanceAbs < 0, "balance-abs-threshold: %d is below 0", c.BalanceAbs)
	wrong(!(c.BalanceRel >= 1), "balance-rel-threshold: %v is below 1", c.BalanceRel)
	wrong(c.AdjustBuckets <= 0, "bucket-adjust-interval-secs: %v is not above 0", c.AdjustBuckets)
	wrong(c.MaxIdle <= 0, "max-idle-secs: %v is not above 0", c.MaxIdle)
	wrong(c.MaxKeys <= 0, "%d keys are to be remembered at most", c.MaxKeys)
	switch c.Metric {
	case "expected_wait", "requests", "least_requests":
	default:
		wrong(true, "power-of-two-load-metric: %q is unknown", c.Metric)
	}
	switch c.Assignment {
	case "random", "min_load", "min_group", "delegate":
	default:
		wrong(true, "assignment-mode: %q is unknown", c.Assignment)
	}
	return errors.Join(faults...)
}

package sim

import (
	"errors"
	"fmt"
	"time"
)

// The dialects and roles that an engine can have.
const (
	SGLang   = "sglang"
	VLLMNixl = "vllm-nixl"
	Prefill  = "prefill"
	Decode   = "decode"
)

// Config says what an engine is like. Zero means the default of each field.
type Config struct {
	Dialect string // SGLang or VLLMNixl; must be given
	Role    string // Prefill or Decode; must be given

	// Addr is where the API is served. Default "127.0.0.1:0", a free port.
	Addr string
	// BootstrapAddr is where decode engines find a prefill engine: SGLang's
	// bootstrap server, vLLM's side channel. Default a free port on the host of
	// Addr. On an SGLang decode engine only its port counts: it is the one
	// assumed when a request names none (8998 by default).
	BootstrapAddr string

	Model  string // name it is served under; default "sim-model"
	APIKey string // bearer key that is asked for; default none

	KVTokens      int // capacity of the KV cache, in tokens; default 100 000
	BlockSize     int // tokens per block; default 128
	MaxRunning    int // requests that have blocks at a time; default 64
	ContextLength int // tokens of prompt and answer together; default 131 072

	// PrefillPerToken is the time to compute one prompt token that is not
	// cached, one prompt after the other; DecodePerToken that to generate one,
	// all running requests side by side. Default 0: as fast as can be.
	PrefillPerToken, DecodePerToken time.Duration

	// BootstrapTimeout is how long SGLang's prefill waits for decode, and
	// WaitingTimeout decode for the KV. Default 300 s each.
	BootstrapTimeout, WaitingTimeout time.Duration
	// HandshakeTimeout is how long decode tries to reach a prefill engine that
	// is not there. Default 14 s (SGLang), 5 s (vLLM).
	HandshakeTimeout time.Duration
	// LostTimeout is how long SGLang's decode takes to see that a prefill
	// engine has died in the middle. Default 12 s.
	LostTimeout time.Duration
	// Lease is how long vLLM's prefill holds blocks that no decode engine asks
	// for. Default 30 s.
	Lease time.Duration
	// LoadFailure is vLLM's kv_load_failure_policy, "fail" (default) or
	// "recompute".
	LoadFailure string

	// DisconnectDelay is how long it takes to notice that a client has left.
	// Default as measured: vLLM 10 ms; SGLang 3 s while the request waits, 1 s
	// while it generates.
	DisconnectDelay time.Duration
	// KeepAlive is how long an idle connection stays open. Default 5 s.
	KeepAlive time.Duration

	NoMetrics     bool // as SGLang without --enable-metrics: /metrics is 404
	NoCacheReport bool // usage says nothing of cached tokens

	// Control serves /sim/faults and /sim/state, by which a running process is
	// told to fail and tells its state. No real engine has them.
	Control bool
	// Violated, if not nil, is told each violation as it happens. It is called
	// from the goroutine of a request and must not block.
	Violated func(kind string)
}

// DefaultConfig returns the defaults, without dialect and role.
func DefaultConfig() Config {
	return Config{
		Addr:             "127.0.0.1:0",
		Model:            "sim-model",
		KVTokens:         100_000,
		BlockSize:        128,
		MaxRunning:       64,
		ContextLength:    131_072,
		BootstrapTimeout: 300 * time.Second,
		WaitingTimeout:   300 * time.Second,
		LostTimeout:      12 * time.Second,
		Lease:            30 * time.Second,
		LoadFailure:      "fail",
		KeepAlive:        5 * time.Second,
	}
}

// Validate reports all that is wrong with c.
func (c Config) Validate() error {
	var errs []error
	if c.Dialect != SGLang && c.Dialect != VLLMNixl {
		errs = append(errs, fmt.Errorf("dialect %q: must be %s or %s", c.Dialect, SGLang, VLLMNixl))
	}
	if c.Role != Prefill && c.Role != Decode {
		errs = append(errs, fmt.Errorf("role %q: must be %s or %s", c.Role, Prefill, Decode))
	}
	for name, n := range map[string]int{
		"KV tokens": c.KVTokens, "block size": c.BlockSize,
		"max running": c.MaxRunning, "context length": c.ContextLength,
	} {
		if n < 0 {
			errs = append(errs, fmt.Errorf("%s %d: must not be negative", name, n))
		}
	}
	if c.BlockSize > 0 && c.KVTokens > 0 && c.KVTokens < c.BlockSize {
		errs = append(errs, fmt.Errorf("KV tokens %d: less than one block of %d", c.KVTokens, c.BlockSize))
	}
	if f := c.LoadFailure; f != "" && f != "fail" && f != "recompute" {
		errs = append(errs, fmt.Errorf("load failure policy %q: must be fail or recompute", f))
	}
	return errors.Join(errs...)
}

// withDefaults returns c with its zero fields filled in.
func (c Config) withDefaults() Config {
	d := DefaultConfig()
	d.HandshakeTimeout = 5 * time.Second
	if c.Dialect == SGLang {
		d.HandshakeTimeout = 14 * time.Second
	}
	fill(&c.Addr, d.Addr)
	fill(&c.Model, d.Model)
	fill(&c.LoadFailure, d.LoadFailure)
	fill(&c.KVTokens, d.KVTokens)
	fill(&c.BlockSize, d.BlockSize)
	fill(&c.MaxRunning, d.MaxRunning)
	fill(&c.ContextLength, d.ContextLength)
	fill(&c.BootstrapTimeout, d.BootstrapTimeout)
	fill(&c.WaitingTimeout, d.WaitingTimeout)
	fill(&c.HandshakeTimeout, d.HandshakeTimeout)
	fill(&c.LostTimeout, d.LostTimeout)
	fill(&c.Lease, d.Lease)
	fill(&c.KeepAlive, d.KeepAlive)
	return c
}

// fill sets *v to its default if it is zero.
func fill[T comparable](v *T, def T) {
	var zero T
	if *v == zero {
		*v = def
	}
}

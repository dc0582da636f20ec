package admin

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"strings"

	"pdrouter/workers"
)

// smg's defaults of what it keeps and does not act on either.
const (
	defaultPriority = 50
	defaultCost     = 1.0
)

// A spec is the body that describes a worker: smg's WorkerSpec.
type spec struct {
	url, role              string
	bootstrapHost, apiKey  string
	bootstrapPort          int
	labels                 map[string]string
	priority               *uint32
	cost                   *float64
	mode, runtime, connect string // looked at, and not kept
	attempts               uint32
}

// readSpec returns the worker that a body describes.
func readSpec(body []byte) (*spec, error) {
	s := &spec{}
	keys := object{
		"url":            into(&s.url, "a string"),
		"worker_type":    oneOf(&s.role, "only prefill and decode workers are routed to", "prefill", "decode"),
		"bootstrap_port": s.takePort,
		"bootstrap_host": into(&s.bootstrapHost, "a string"),
	}
	maps.Copy(keys, s.changeable())
	maps.Copy(keys, s.harmless())
	maps.Copy(keys, undone())
	if err := keys.read(body); err != nil {
		return nil, bad(err)
	}
	switch {
	case s.url == "":
		return nil, bad(errors.New("url: missing"))
	case s.role == "":
		return nil, bad(errors.New("worker_type: missing; it is prefill or decode, there are no regular workers here"))
	}
	return s, nil
}

// readPatch returns the changes that a body describes.
func readPatch(body []byte) (*spec, error) {
	s := &spec{}
	keys := s.changeable()
	keys["health"] = undone()["health"]
	if err := keys.read(body); err != nil {
		return nil, bad(fmt.Errorf("%w (PATCH changes labels, priority, cost and api_key; PUT describes a worker anew)", err))
	}
	return s, nil
}

// changeable returns the keys that a worker's description and a change of it
// have in common.
func (s *spec) changeable() object {
	return object{
		"labels":   into(&s.labels, "an object of strings"),
		"priority": into(&s.priority, "a whole number"),
		"cost":     into(&s.cost, "a number"),
		"api_key":  s.takeKey,
	}
}

// harmless returns the keys of smg's that say what the engine says itself, or
// what is so anyway.
func (s *spec) harmless() object {
	runtime := oneOf(&s.runtime, "only sglang and vllm engines are spoken to", "sglang", "vllm", "unspecified")
	return object{
		"models":                  takeModels,
		"connection_mode":         oneOf(&s.mode, "workers are spoken to in HTTP", "http"),
		"runtime_type":            runtime,
		"runtime":                 runtime,
		"kv_connector":            oneOf(&s.connect, "vLLM hands over by NixlConnector here", "NixlConnector", ""),
		"kv_role":                 nil,
		"kv_engine_id":            nil,
		"kv_block_size":           nil,
		"max_connection_attempts": into(&s.attempts, "a whole number"),
	}
}

// undone returns the keys of smg's that ask for something which is not done
// for one worker. Without a value they are let pass.
func undone() object {
	flags := func(names string) taker {
		return unless("there are no settings for one worker; " + names + " are for all")
	}
	return object{
		"health":                      flags("--health-* and --drain-settle-secs"),
		"resilience":                  flags("--cb-* and --retry-*"),
		"overload":                    flags("--worker-overload-*"),
		"http_pool":                   flags("--connect-timeout-secs and --upstream-pool-idle-timeout-secs"),
		"load_monitor_interval_secs":  flags("--load-monitor-interval and its like"),
		"provider":                    unless("external providers are not routed to"),
		"dp_base_url":                 unless("the engine chooses among its ranks"),
		"dp_rank":                     unless("the engine chooses among its ranks"),
		"dp_size":                     unless("the engine chooses among its ranks"),
		"pairing_protocol":            unless("a pair has one dialect, page size and KV type"),
		"zmq_handshake_address":       unless("workers are spoken to in HTTP"),
		"multimodal_tensor_transport": unless("media are the engines' to process"),
		"multimodal_shm_min_bytes":    unless("media are the engines' to process"),
	}
}

func (s *spec) takePort(value json.RawMessage) error {
	if json.Unmarshal(value, &s.bootstrapPort) != nil || s.bootstrapPort < 1 || s.bootstrapPort > 65535 {
		return errors.New("must be a port, 1 to 65535; left out, the engine is asked")
	}
	return nil
}

// takeKey takes a key as flags do. It never shows it.
func (s *spec) takeKey(value json.RawMessage) error {
	if json.Unmarshal(value, &s.apiKey) != nil || strings.ContainsFunc(s.apiKey, func(r rune) bool { return r <= ' ' || r >= 0x7f }) {
		return errors.New("must be a string of visible ASCII letters, without blanks")
	}
	return nil
}

// takeModels looks at model cards. The engine says what it serves; a further
// name for it would not be routed.
func takeModels(value json.RawMessage) error {
	var cards []struct {
		ID      string   `json:"id"`
		Aliases []string `json:"aliases"`
	}
	if json.Unmarshal(value, &cards) != nil {
		return errors.New("must be a list of model cards")
	}
	for _, c := range cards {
		if len(c.Aliases) > 0 {
			return errors.New("aliases are not routed; start the engine with --served-model-name")
		}
	}
	return nil
}

// worker returns the worker that s describes.
func (s *spec) worker() workers.Spec {
	w := workers.Spec{URL: s.url, BootstrapPort: s.bootstrapPort, BootstrapHost: s.bootstrapHost, APIKey: s.apiKey}
	if s.role == workers.Decode.String() {
		w.Role = workers.Decode
	}
	return w
}

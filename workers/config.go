package workers

import (
	"cmp"
	"errors"
	"fmt"
	"net/url"
	"strconv"
	"strings"
	"time"
)

// A Role says which half of a request a worker runs.
type Role uint8

// The roles.
const (
	Prefill Role = iota // computes the KV cache of the prompt
	Decode              // generates the tokens of the answer
)

// String returns the role's name, as in flags, logs and metric labels.
func (r Role) String() string {
	if r == Prefill {
		return "prefill"
	}
	return "decode"
}

// BootstrapNone is the bootstrap port of a prefill worker that was configured
// with the word "none": legs carry null and the engine takes its own default.
const BootstrapNone = -1

// A Spec is one worker as its operator configured it.
type Spec struct {
	Role Role

	// URL is the engine's base URL: http://host:port, https://host:port or
	// unix:/path/to/socket. It is the worker's name in metrics.
	URL string

	// BootstrapPort is where a prefill engine's bootstrap server listens.
	// Zero: whatever the engine tells. BootstrapNone: say nothing.
	BootstrapPort int

	// BootstrapHost is the address at which decode engines reach that
	// server. Empty: the host of URL, else the one the engine tells.
	BootstrapHost string

	// APIKey is the bearer key that this engine asks for. Empty: Config.APIKey.
	APIKey string
}

// Config holds what an operator may set about the workers.
type Config struct {
	Specs []Spec

	// Dialect is how prefill hands over to decode: "sglang", "vllm-nixl", or
	// "auto", which asks each engine. Default "auto".
	Dialect string

	// APIKey is the bearer key sent to workers that have none of their own.
	// Empty: the client's own Authorization is passed on, unless the router
	// checks keys itself.
	APIKey string

	// ProbeInterval is the time between two looks at a worker that is not
	// ready. Default 1 s.
	ProbeInterval time.Duration

	// ProbeTimeout bounds one look, and the reading of one report. Default 5 s.
	ProbeTimeout time.Duration

	// LoadInterval is the time between two reports of a worker that is ready.
	// Default 1 s: ten times smg's, and a thousandth of a core for each worker.
	LoadInterval time.Duration

	// KVEvents says whose KV events are followed, and where they are. Default
	// auto: those of the engines that tell where.
	KVEvents []KVRule

	// NoReports leaves reports unread. Default false.
	NoReports bool

	// DrainSettle is how long a removed worker is still shown, at least: its
	// requests may take longer. Default 5 s.
	DrainSettle time.Duration

	// WarmupTime is how long a worker gets less than its share of requests,
	// beginning with WarmupShare of it, after it was added or has started
	// anew. Defaults 60 s and 0.25. WarmupTime 0: it gets all at once.
	WarmupTime  time.Duration
	WarmupShare float64

	// Names are what workers were called before. Default: nothing.
	Names Names

	Admission Admission
}

// DefaultConfig returns the configuration of a daemon started without flags.
func DefaultConfig() Config {
	return Config{
		Dialect:       "auto",
		KVEvents:      []KVRule{{All: "auto"}},
		ProbeInterval: time.Second,
		ProbeTimeout:  5 * time.Second,
		LoadInterval:  time.Second,
		DrainSettle:   5 * time.Second,
		WarmupTime:    60 * time.Second,
		WarmupShare:   0.25,
		Admission:     DefaultAdmission(),
	}
}

// Validate reports every fault of c.
func (c Config) Validate() error {
	var faults []error
	seen := map[string]bool{}
	for _, s := range c.Specs {
		if err := s.Validate(); err != nil {
			faults = append(faults, err)
		}
		if name := s.Role.String() + " " + s.URL; seen[name] {
			faults = append(faults, fmt.Errorf("%s: configured twice", name))
		} else {
			seen[name] = true
		}
	}
	faults = append(faults, c.unreachable()...)
	faults = append(faults, c.Admission.validate()...)
	faults = append(faults, checkKVRules(c.KVEvents)...)
	switch c.Dialect {
	case "auto", "sglang", "vllm-nixl":
	default:
		faults = append(faults, fmt.Errorf("dialect: %q is unknown; known are auto, sglang, vllm-nixl", c.Dialect))
	}
	if c.ProbeInterval <= 0 || c.ProbeTimeout <= 0 {
		faults = append(faults, errors.New("worker probes: interval and timeout must be above 0"))
	}
	if c.LoadInterval <= 0 {
		faults = append(faults, errors.New("load-monitor-interval: must be above 0; --disable-load-monitoring turns it off"))
	}
	if c.WarmupShare <= 0 || c.WarmupShare > 1 {
		faults = append(faults, fmt.Errorf("worker-warmup-share: %v is not above 0 and at most 1", c.WarmupShare))
	}
	if c.DrainSettle < 0 || c.WarmupTime < 0 {
		faults = append(faults, errors.New("drain-settle-secs and worker-warmup-secs: must not be negative"))
	}
	return errors.Join(faults...)
}

// unreachable reports every prefill worker whose bootstrap server is
// configured to be where no decode engine finds it: on a wildcard, or on
// loopback beside a decode engine elsewhere (BUG-011). What vLLM engines say to
// each other carries their own addresses, so they may be anywhere.
func (c Config) unreachable() []error {
	var faults []error
	for _, p := range c.Specs {
		host := cmp.Or(p.BootstrapHost, Hostname(p.URL))
		switch {
		case p.Role != Prefill || c.Dialect == "vllm-nixl":
		case isWildcard(p.BootstrapHost):
			faults = append(faults, fmt.Errorf("prefill %q: bootstrap-host %q is a wildcard, which decode engines cannot dial", p.URL, p.BootstrapHost))
		case isWildcard(host):
			faults = append(faults, fmt.Errorf("prefill %q: its host is a wildcard, which decode engines cannot dial; give a real one, or bootstrap-host in the file", p.URL))
		case IsLoopback(host):
			// Behind a unix socket the engine itself says where it is.
			told := p.BootstrapHost == "" && strings.HasPrefix(p.URL, "unix:")
			if d := c.remoteDecode(); d != "" && !told {
				faults = append(faults, fmt.Errorf("prefill %q: decode %q cannot reach its bootstrap host %s; give a real one, bootstrap-host in the file, or --dialect vllm-nixl if these are vLLM engines", p.URL, d, host))
			}
		}
	}
	return faults
}

// remoteDecode returns the URL of a decode worker that is not on this host,
// or nothing.
func (c Config) remoteDecode() string {
	for _, d := range c.Specs {
		if host := Hostname(d.URL); d.Role == Decode && !IsLoopback(host) && !isWildcard(host) {
			return d.URL
		}
	}
	return ""
}

// Validate reports the first fault of s.
func (s Spec) Validate() error {
	fault := func(format string, args ...any) error {
		return fmt.Errorf("%s %q: %s", s.Role, s.URL, fmt.Sprintf(format, args...))
	}
	if s.BootstrapPort < BootstrapNone || s.BootstrapPort > 65535 {
		return fault("bootstrap port %d is not between 1 and 65535", s.BootstrapPort)
	}
	if s.Role == Decode && (s.BootstrapPort != 0 || s.BootstrapHost != "") {
		return fault("a decode worker has no bootstrap server")
	}
	if strings.ContainsAny(s.BootstrapHost, "/ []") {
		return fault("bootstrap-host %q is not a bare address or host name", s.BootstrapHost)
	}
	if path, ok := strings.CutPrefix(s.URL, "unix:"); ok {
		if !strings.HasPrefix(path, "/") {
			return fault("a unix socket needs an absolute path, as in unix:/run/vllm/p0.sock")
		}
		return nil
	}
	return s.validateURL(fault)
}

// validateURL reports the first fault of the URL of s, which is no unix socket.
func (s Spec) validateURL(fault func(format string, args ...any) error) error {
	u, err := url.Parse(s.URL)
	switch {
	case err != nil:
		return fault("not a URL: %v", errors.Unwrap(err))
	case u.User != nil:
		return fmt.Errorf("%s %q: no user or password may be given; api-key in the file is for that", s.Role, u.Redacted())
	case u.Scheme != "http" && u.Scheme != "https":
		return fault("the scheme must be http, https or unix")
	case u.Hostname() == "":
		return fault("no host")
	case u.Path != "" && u.Path != "/" || u.RawQuery != "" || u.Fragment != "":
		return fault("only scheme, host and port may be given")
	}
	if port := u.Port(); port != "" {
		if n, err := strconv.Atoi(port); err != nil || n < 1 || n > 65535 {
			return fault("port %s is not between 1 and 65535", port)
		}
	}
	return nil
}

package main

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"time"

	"pdrouter/exchange"
	"pdrouter/health"
	"pdrouter/metrics"
	"pdrouter/policy"
	"pdrouter/router"
	"pdrouter/tracing"
	"pdrouter/workers"
)

// Config is all that an operator may set.
type Config struct {
	// Host and Port are where clients are listened for. Defaults 0.0.0.0 and
	// 30001. Port 0 is any free one.
	Host string
	Port int

	// HealthCheckPort is a further listener on Host that serves nothing but
	// /liveness, /readiness and /health. Default 0: none.
	HealthCheckPort int

	// MetricsHost and MetricsPort are where Prometheus is listened for.
	// Defaults 0.0.0.0 and 29001. Port 0 is any free one.
	MetricsHost string
	MetricsPort int

	// TargetsFile is where the engines are listed for a Prometheus that reads
	// them too. Default empty: nowhere.
	TargetsFile string

	// AdminSocket is where the admin API is listened for: the path of a unix
	// socket, "none", or "auto", the first of the usual places that can be had.
	// Default auto.
	AdminSocket string

	// AdminHost and AdminPort are a further place for it, on loopback and for
	// those who send AdminAPIKey. Defaults 127.0.0.1 and 0: none.
	AdminHost   string
	AdminPort   int
	AdminAPIKey string

	// AdminOnData serves it to clients too, for those who send AdminAPIKey or,
	// if there is none, a key of clients. Default false.
	AdminOnData bool

	// TLSCert and TLSKey name the PEM files with which clients are spoken to.
	// Empty: plain HTTP.
	TLSCert, TLSKey string

	// CACertPaths name PEM files with authorities which are trusted for
	// workers, beside those of the system.
	CACertPaths []string

	// ClientCert and ClientKey name the PEM files that workers are shown.
	// Empty: none.
	ClientCert, ClientKey string

	// LogLevel is debug, info, warn or error. Default info.
	LogLevel string

	// LogFormat is the form of the log: console, json, journal, or auto, which
	// looks at where it goes. Default auto. LogJSON is smg's word for json.
	LogFormat string
	LogJSON   bool

	// ShutdownGrace is how long requests may run on after SIGTERM. Default 180 s.
	ShutdownGrace time.Duration

	// HeaderRead bounds the time from a connection's, or a further request's,
	// first byte to the end of the request's head. Default 30 s; 0: no bound.
	HeaderRead time.Duration

	// IdleConnection is how long a client's connection without a request is
	// kept. Default 90 s; 0: until the client closes it.
	IdleConnection time.Duration

	// Policy chooses pairs; PrefillPolicy and DecodePolicy do so for one leg.
	// Default cache_aware for Policy, which is what an empty one of the others
	// means. Choosing is what they let be set.
	Policy, PrefillPolicy, DecodePolicy string
	Choosing                            policy.Config

	// IndexSnapshot is the file in which what the policy knows outlives the
	// router. Default empty: it does not.
	IndexSnapshot string

	// DiscoveryProvider is who else tells the workers: "file", or "kubernetes",
	// which is not acted on. Default empty: nobody.
	DiscoveryProvider string

	// DiscoveryFile lists workers that come and go with it, for the provider
	// file. DiscoveryInterval is the time between two readings of it if nothing
	// says that it has changed. Default 30 s.
	DiscoveryFile     string
	DiscoveryInterval time.Duration

	Workers  workers.Config
	Exchange exchange.Config
	Router   router.Config
	Health   health.Config
	Metrics  metrics.Config
	Tracing  tracing.Config
}

// DefaultConfig returns the configuration of a daemon started without flags.
func DefaultConfig() Config {
	return Config{
		Host:           "0.0.0.0",
		Port:           30001,
		MetricsHost:    "0.0.0.0",
		MetricsPort:    29001,
		AdminSocket:    anySocket,
		AdminHost:      "127.0.0.1",
		LogLevel:       "info",
		LogFormat:      logAuto,
		ShutdownGrace:  180 * time.Second,
		HeaderRead:     30 * time.Second,
		IdleConnection: 90 * time.Second,
		Policy:         "cache_aware",
		Choosing:       policy.DefaultConfig(),

		DiscoveryInterval: 30 * time.Second,

		Workers:  workers.DefaultConfig(),
		Exchange: exchange.DefaultConfig(),
		Router:   router.DefaultConfig(),
		Health:   health.DefaultConfig(),
		Metrics:  metrics.DefaultConfig(),
		Tracing:  tracing.DefaultConfig(),
	}
}

// Validate reports every fault of c. It opens the files that c names.
func (c Config) Validate() error {
	_, serverFault := c.serverTLS()
	_, workerFault := c.workerTLS()
	fleet, fileFault := c.fleet()
	return errors.Join(
		c.checkRoles(),
		c.checkListeners(),
		c.checkAdmin(),
		c.checkDiscovery(),
		c.checkSnapshot(),
		c.checkTargets(),
		c.checkLog(),
		c.Choosing.Validate(),
		fileFault,
		fleet.Validate(),
		c.Exchange.Validate(),
		c.Router.Validate(),
		c.Health.Validate(),
		c.Metrics.Validate(),
		c.Tracing.Validate(),
		serverFault,
		workerFault,
	)
}

// checkRoles reports the roles for which there is no worker.
func (c Config) checkRoles() error {
	if c.DiscoveryProvider == fromFile || c.adminIsAskedFor() {
		return nil // they may come
	}
	has := func(role workers.Role) bool {
		return slices.ContainsFunc(c.Workers.Specs, func(s workers.Spec) bool { return s.Role == role })
	}
	switch prefill, decode := has(workers.Prefill), has(workers.Decode); {
	case !prefill && !decode:
		return errors.New("no workers: give --prefill URL [PORT] and --decode URL, or --config FILE (pdrouter --help shows examples)")
	case !prefill:
		return errors.New("no prefill worker: give --prefill URL [PORT]")
	case !decode:
		return errors.New("no decode worker: give --decode URL")
	}
	return nil
}

// A listener is one place where the daemon is listened to.
type listener struct {
	hostFlag, host string
	portFlag       string
	port           int
}

func (c Config) dataListener() listener { return listener{"host", c.Host, "port", c.Port} }

func (c Config) metricsListener() listener {
	return listener{"prometheus-host", c.MetricsHost, "prometheus-port", c.MetricsPort}
}

func (c Config) healthListener() listener {
	host := c.Host
	if _, is := socketPath(host); is {
		host = "127.0.0.1"
	}
	return listener{"host", host, "health-check-port", c.HealthCheckPort}
}

func (c Config) adminListener() listener {
	return listener{"admin-host", c.AdminHost, "admin-port", c.AdminPort}
}

// listeners returns every place that c opens, by its flags.
func (c Config) listeners() []listener {
	all := []listener{c.dataListener(), c.metricsListener()}
	if c.HealthCheckPort != 0 {
		all = append(all, c.healthListener())
	}
	if c.AdminPort != 0 {
		all = append(all, c.adminListener())
	}
	return all
}

// checkListeners reports addresses that cannot be listened on, alone or together.
func (c Config) checkListeners() error {
	var faults []error
	all := c.listeners()
	for i, l := range all {
		faults = append(faults, l.validate())
		for _, other := range all[:i] {
			if l.clashes(other) {
				faults = append(faults, fmt.Errorf("%s: %d is taken by %s already", l.portFlag, l.port, other.portFlag))
			}
		}
	}
	return errors.Join(faults...)
}

// clashes reports whether the kernel would refuse to open both l and other.
func (l listener) clashes(other listener) bool {
	wild := func(host string) bool {
		addr, err := netip.ParseAddr(host)
		return err == nil && addr.IsUnspecified()
	}
	if _, is := socketPath(l.host); is {
		return l.host == other.host
	}
	return l.port != 0 && l.port == other.port &&
		(l.host == other.host || wild(l.host) || wild(other.host))
}

// isHost reports whether host may stand before a port: an address, or a name.
func isHost(host string) bool {
	if _, err := netip.ParseAddr(host); err == nil {
		return true
	}
	return host != "" && !slices.ContainsFunc([]byte(host), func(b byte) bool {
		letter := 'a' <= b|0x20 && b|0x20 <= 'z' || '0' <= b && b <= '9'
		return !letter && b != '-' && b != '.' && b != '_'
	})
}

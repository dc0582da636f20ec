package router

import (
	"errors"
	"fmt"
	"math"
	"net/url"
	"slices"
	"strings"
	"time"

	"pdrouter/keys"
)

// Config holds what an operator may set about the client's side.
type Config struct {
	// APIKeys are the bearer keys of which a client must send one. Empty:
	// anybody may ask, and a client's own Authorization goes up to engines.
	APIKeys keys.Set

	// MaxBodyBytes is the largest request body accepted, in bytes, before
	// and after its content-encoding is undone. A larger one gets 413.
	// Default 256 MiB.
	MaxBodyBytes int64

	// MaxBufferedBytes bounds the request bodies held at one time, in bytes.
	// A request beyond it gets 503. Default 2 GiB.
	MaxBufferedBytes int64

	// MaxAnswerBytes is how much of a JSON answer is held until it is known
	// to be whole. A longer one is let go while it still arrives, and a
	// later break aborts the connection. Default 64 MiB.
	MaxAnswerBytes int64

	// BodyStall is how long a request body may make no progress. Then the
	// client gets 408. Default 300 s.
	BodyStall time.Duration

	// FirstByte bounds the time from sending the legs of a stream to its first
	// token, and to prefill's answer if the client wants JSON. Default 600 s: half
	// a million tokens take minutes to prefill.
	FirstByte time.Duration

	// StreamIdle is how long a stream may be silent between two reads once
	// it has begun. Default 60 s.
	StreamIdle time.Duration

	// RequestTimeout bounds a JSON answer as a whole. Streams have no such
	// bound. Default 1800 s.
	RequestTimeout time.Duration

	// ClientStall is how long a client may take nothing of its answer before
	// it counts as gone. Default 60 s.
	ClientStall time.Duration

	// Retries says whether and when a request is tried again.
	Retries Retries

	// RequestIDHeaders are the request headers in which a client may name
	// its request, in order of precedence. The name is logged and echoed; it
	// never reaches an engine.
	RequestIDHeaders []string

	// CORSOrigins are the origins that browsers may call from. Empty: none.
	CORSOrigins []string

	// RoutingKeyHeaders are the request headers in which a client says which
	// requests belong together, in order of precedence. They go up to the engines
	// as they are. Default x-smg-routing-key.
	RoutingKeyHeaders []string

	// MaxClass names the highest class that a request gets, whatever it claims.
	// Default system: all claims are honoured.
	MaxClass string
}

// DefaultConfig returns the configuration of a daemon started without flags.
func DefaultConfig() Config {
	return Config{
		MaxBodyBytes:      256 << 20,
		MaxBufferedBytes:  2 << 30,
		MaxAnswerBytes:    64 << 20,
		BodyStall:         300 * time.Second,
		FirstByte:         600 * time.Second,
		StreamIdle:        60 * time.Second,
		RequestTimeout:    1800 * time.Second,
		ClientStall:       60 * time.Second,
		Retries:           Retries{Attempts: 5, Backoff: 50 * time.Millisecond, Multiplier: 1.5, MaxBackoff: 30 * time.Second, Jitter: 0.2},
		RequestIDHeaders:  []string{"x-request-id", "x-correlation-id", "x-trace-id", "request-id"},
		RoutingKeyHeaders: []string{"x-smg-routing-key"},
		MaxClass:          System.String(),
	}
}

// Validate reports every fault of c.
func (c Config) Validate() error {
	var faults []error
	above := func(flag string, ok bool, value any) {
		if !ok {
			faults = append(faults, fmt.Errorf("%s: must be above 0, is %v", flag, value))
		}
	}
	above("max-payload-size", c.MaxBodyBytes > 0, c.MaxBodyBytes)
	if c.MaxBodyBytes > math.MaxInt32 {
		faults = append(faults, fmt.Errorf("max-payload-size: must be below 2 GiB, is %d", c.MaxBodyBytes))
	}
	above("max-buffered-bytes", c.MaxBufferedBytes > 0, c.MaxBufferedBytes)
	above("max-answer-size", c.MaxAnswerBytes > 0, c.MaxAnswerBytes)
	above("stream-body-stall-timeout-secs", c.BodyStall > 0, c.BodyStall)
	above("first-byte-timeout-secs", c.FirstByte > 0, c.FirstByte)
	above("stream-idle-timeout-secs", c.StreamIdle > 0, c.StreamIdle)
	above("request-timeout-secs", c.RequestTimeout > 0, c.RequestTimeout)
	above("client-stall-secs", c.ClientStall > 0, c.ClientStall)
	faults = append(faults, c.Retries.validate()...)
	for _, key := range c.APIKeys {
		if key.IsEmpty() {
			faults = append(faults, errors.New("api-key: must not be empty"))
		}
	}
	faults = append(faults, checkNames("request-id-headers", c.RequestIDHeaders)...)
	faults = append(faults, checkNames("routing-key-headers", c.RoutingKeyHeaders)...)
	faults = append(faults, c.checkRoutingKeys()...)
	if !slices.Contains(ClassNames(), c.MaxClass) {
		faults = append(faults, fmt.Errorf("priority-scheduler-default-max-class: %q is none of %s", c.MaxClass, strings.Join(ClassNames(), ", ")))
	}
	faults = append(faults, c.checkOrigins()...)
	return errors.Join(faults...)
}

// checkNames reports those of names which cannot be a header's.
func checkNames(flag string, names []string) []error {
	var faults []error
	for _, name := range names {
		bad := strings.IndexFunc(name, func(r rune) bool {
			return r <= ' ' || r >= 0x7f || strings.ContainsRune(`"(),/:;<=>?@[\]{}`, r)
		})
		if name == "" || bad >= 0 {
			faults = append(faults, fmt.Errorf("%s: %q is not the name of a header", flag, name))
		}
	}
	return faults
}

// checkRoutingKeys reports routing keys that would put a client's word where
// the router's own belongs (I6).
func (c Config) checkRoutingKeys() []error {
	own := []string{
		"accept-encoding", "authorization", "connection", "content-encoding", "content-length", "content-type", "cookie",
		"expect", "host", "keep-alive", "te", "trailer", "transfer-encoding", "upgrade", "x-request-id",
	}
	var faults []error
	for _, name := range c.RoutingKeyHeaders {
		if slices.Contains(own, strings.ToLower(name)) {
			faults = append(faults, fmt.Errorf("routing-key-headers: %q is not a client's to send on to an engine", name))
		}
	}
	return faults
}

// checkOrigins reports what a browser would never send as its origin.
func (c Config) checkOrigins() []error {
	var faults []error
	for _, origin := range c.CORSOrigins {
		u, err := url.Parse(origin)
		if origin != "*" && (err != nil || u.Scheme == "" || u.Host == "" || u.Scheme+"://"+u.Host != origin) {
			faults = append(faults, fmt.Errorf("cors-allowed-origins: %q is neither * nor scheme://host[:port]", origin))
		}
	}
	return faults
}

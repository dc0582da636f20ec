package exchange

import (
	"crypto/tls"
	"errors"
	"fmt"
	"time"
)

// Config holds what an operator may set about the connections to workers.
type Config struct {
	// ConnectTimeout bounds dialling a worker, TLS handshake included.
	// Default 2 s.
	ConnectTimeout time.Duration

	// IdleTimeout is how long an unused connection is kept. It must stay
	// below the engines' own keep-alive, which is uvicorn's 5 s. Default 3 s.
	IdleTimeout time.Duration

	// MaxIdle is how many unused connections are kept per worker. Default 512.
	MaxIdle int

	// MaxOpen is how many connections may be open to one worker at a time;
	// a request beyond it fails at once. Default 8192.
	MaxOpen int

	// MaxHeadBytes bounds the head of an answer, 1xx heads included.
	// Default 64 KiB.
	MaxHeadBytes int

	// TLS is how workers with an https URL are spoken to. Nil means the
	// system's root certificates and no client certificate.
	TLS *tls.Config
}

// DefaultConfig returns the configuration of a daemon started without flags.
func DefaultConfig() Config {
	return Config{
		ConnectTimeout: 2 * time.Second,
		IdleTimeout:    3 * time.Second,
		MaxIdle:        512,
		MaxOpen:        8192,
		MaxHeadBytes:   64 << 10,
	}
}

// Validate reports every fault of c.
func (c Config) Validate() error {
	var faults []error
	if c.ConnectTimeout <= 0 {
		faults = append(faults, fmt.Errorf("connect-timeout-secs: must be above 0, is %v", c.ConnectTimeout))
	}
	if c.IdleTimeout < 0 {
		faults = append(faults, fmt.Errorf("upstream-pool-idle-timeout-secs: must not be negative, is %v", c.IdleTimeout))
	}
	if c.MaxIdle < 0 || c.MaxOpen < 1 || c.MaxHeadBytes < 1024 {
		faults = append(faults, fmt.Errorf("connection limits: idle %d, open %d, head %d bytes: too small", c.MaxIdle, c.MaxOpen, c.MaxHeadBytes))
	}
	return errors.Join(faults...)
}

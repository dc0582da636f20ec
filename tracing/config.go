package tracing

import (
	"fmt"
	"net"
	"net/url"
	"strings"
)

// Config is what an operator may set about traces.
type Config struct {
	// Enabled makes traces. Default false.
	Enabled bool

	// Endpoint is where they are sent: host:port or a URL. With a path, or on port
	// 4318, it is spoken to in OTLP over HTTP, else in OTLP over gRPC. Default
	// localhost:4317.
	Endpoint string

	// Ratio is the part of the requests that are traced whose client does not say
	// by a traceparent whether they are to be. Default 1.
	Ratio float64
}

// DefaultConfig returns the configuration of a daemon started without flags.
func DefaultConfig() Config { return Config{Endpoint: "localhost:4317", Ratio: 1} }

// Validate reports every fault of c.
func (c Config) Validate() error {
	if _, err := parseEndpoint(c.Endpoint); err != nil {
		return fmt.Errorf("otlp-traces-endpoint: %w", err)
	}
	if !(c.Ratio >= 0 && c.Ratio <= 1) {
		return fmt.Errorf("trace-sample-ratio: must be between 0 and 1, is %v", c.Ratio)
	}
	return nil
}

// The places of OTLP's trace service.
const (
	grpcPort = "4317"
	httpPort = "4318"
	grpcPath = "/opentelemetry.proto.collector.trace.v1.TraceService/Export"
	httpPath = "/v1/traces"
)

// A target is where batches are sent.
type target struct {
	url  string
	grpc bool // else OTLP over HTTP
}

// parseEndpoint returns the target that an operator's words mean. The protocol
// is told by the path and the port, because those for which smg, SGLang and vLLM
// take the same flag only differ in them.
func parseEndpoint(s string) (target, error) {
	if !strings.Contains(s, "://") {
		s = "http://" + s
	}
	u, err := url.Parse(s)
	if err != nil {
		return target{}, fmt.Errorf("%q is neither host:port nor a URL", s)
	}
	if u.Scheme != "http" && u.Scheme != "https" || u.Hostname() == "" || u.User != nil || u.RawQuery != "" || u.Fragment != "" {
		return target{}, fmt.Errorf("%q is neither host:port nor http[s]://host:port[/path]", s)
	}
	port := u.Port()
	to := target{grpc: port != httpPort && strings.Trim(u.Path, "/") == ""}
	switch {
	case to.grpc:
		u.Path = grpcPath
		if port == "" {
			port = grpcPort
		}
	case strings.Trim(u.Path, "/") == "":
		u.Path = httpPath
	}
	if port != "" {
		u.Host = net.JoinHostPort(u.Hostname(), port)
	}
	to.url = u.String()
	return to, nil
}

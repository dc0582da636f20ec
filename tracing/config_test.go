package tracing

import "testing"

func TestEndpoints(t *testing.T) {
	for _, tt := range []struct {
		name, given, url string
		grpc             bool
	}{
		{"smg's default is gRPC", "localhost:4317", "http://localhost:4317" + grpcPath, true},
		{"a URL without a path is gRPC, as vLLM has it", "http://tempo:4317", "http://tempo:4317" + grpcPath, true},
		{"TLS", "https://tempo:443/", "https://tempo:443" + grpcPath, true},
		{"no port is that of gRPC", "tempo", "http://tempo:4317" + grpcPath, true},
		{"the port of HTTP is HTTP", "tempo:4318", "http://tempo:4318/v1/traces", false},
		{"a path is HTTP, as SGLang has it", "http://0.0.0.0:4318/v1/traces", "http://0.0.0.0:4318/v1/traces", false},
		{"a path of a gateway", "https://otlp.example/otlp/v1/traces", "https://otlp.example/otlp/v1/traces", false},
		{"an address of IPv6", "[::1]:4317", "http://[::1]:4317" + grpcPath, true},
		{"one without a port", "http://[::1]", "http://[::1]:4317" + grpcPath, true},
		{"nothing", "", "", false},
		{"another scheme", "grpc://tempo:4317", "", false},
		{"a key in it", "https://user:key@tempo", "", false},
		{"a query", "http://tempo:4318/?a=b", "", false},
		{"no host", ":4317", "", false},
		{"a port that is none", "tempo:x", "", false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			to, err := parseEndpoint(tt.given)
			if (err == nil) != (tt.url != "") || to.url != tt.url || to.grpc != tt.grpc {
				t.Errorf("%q is %+v, %v; want %q, gRPC %v", tt.given, to, err, tt.url, tt.grpc)
			}
			c := Config{Endpoint: tt.given, Ratio: 1}
			if (c.Validate() == nil) != (tt.url != "") {
				t.Errorf("Validate says %v", c.Validate())
			}
		})
	}
	for _, ratio := range []float64{-0.1, 1.1} {
		c := DefaultConfig()
		if c.Ratio = ratio; c.Validate() == nil {
			t.Errorf("a ratio of %v is taken", ratio)
		}
	}
}

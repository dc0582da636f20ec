package tracing

import (
	"encoding/binary"
	"io"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"

	collector "go.opentelemetry.io/proto/slim/otlp/collector/trace/v1"
	trace "go.opentelemetry.io/proto/slim/otlp/trace/v1"
	"google.golang.org/protobuf/proto"
)

// A testCollector is an OTLP receiver of either protocol.
type testCollector struct {
	endpoint string
	grpc     bool

	mu     sync.Mutex
	roots  []*trace.Span // of each trace
	tries  int
	refuse func(try int, w http.ResponseWriter) bool // nil: it takes all
	reply  *collector.ExportTraceServiceResponse
}

func newCollector(t *testing.T, grpc bool) *testCollector {
	t.Helper()
	c := &testCollector{grpc: grpc}
	srv := httptest.NewUnstartedServer(c)
	srv.Config.Protocols = new(http.Protocols)
	srv.Config.Protocols.SetHTTP1(!grpc)
	srv.Config.Protocols.SetUnencryptedHTTP2(grpc)
	srv.Start()
	t.Cleanup(srv.Close)
	c.endpoint = srv.Listener.Addr().String()
	if !grpc {
		c.endpoint = srv.URL + httpPath
	}
	return c
}

func (c *testCollector) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.tries++
	if c.refuse != nil && c.refuse(c.tries, w) {
		return
	}
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return
	}
	if c.grpc {
		if r.URL.Path != grpcPath || r.Header.Get("Content-Type") != "application/grpc" || r.Header.Get("Te") != "trailers" || int(binary.BigEndian.Uint32(body[1:])) != len(body)-5 {
			http.Error(w, "no gRPC", http.StatusBadRequest)
			return
		}
		body = body[5:]
	}
	var req collector.ExportTraceServiceRequest
	if err := proto.Unmarshal(body, &req); err != nil || len(req.ResourceSpans) != 1 {
		http.Error(w, "no OTLP", http.StatusBadRequest)
		return
	}
	for _, s := range req.ResourceSpans[0].ScopeSpans[0].Spans {
		if s.Kind == trace.Span_SPAN_KIND_SERVER {
			c.roots = append(c.roots, s)
		}
	}
	out, _ := proto.Marshal(c.reply)
	if c.grpc {
		w.Header().Set("Content-Type", "application/grpc")
		w.Header().Set("Trailer", "Grpc-Status")
		out = append(binary.BigEndian.AppendUint32([]byte{0}, uint32(len(out))), out...)
		defer w.Header().Set("Grpc-Status", "0")
	}
	w.Write(out)
}

func (c *testCollector) traces() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.roots)
}

// status answers with a status of either protocol.
func (c *testCollector) status(w http.ResponseWriter, code int, grpc string) {
	if c.grpc {
		w.Header().Set("Content-Type", "application/grpc")
		w.Header().Set("Grpc-Status", grpc)
		w.Header().Set("Grpc-Message", "later")
		code = 200
	}
	w.WriteHeader(code)
}

package router

import (
	"context"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"pdrouter/workers"
)

// bar bars the decode worker of f.
func (f *fleet) bar(c workers.Cause, until time.Time) {
	for _, s := range f.registry.Statuses() {
		if s.Worker.Role == workers.Decode {
			f.registry.Bar(s.Worker, c, until, "")
		}
	}
}

// TestBarredRole: a client whose request no worker may take learns when to come
// again, in seconds rounded up.
func TestBarredRole(t *testing.T) {
	tests := []struct {
		name  string
		cause workers.Cause
		until time.Duration // 0: for ever
		want  string        // Retry-After
	}{
		{"a breaker that is open for 30 s", workers.Breaking, 30*time.Second + time.Second/2, "31"},
		{"a breaker that is open no longer", workers.Breaking, time.Second, "1"},
		{"probes that fail, nobody knows for how long", workers.Probing, 0, "1"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			f := newFleet(t, "sglang", hang, hang)
			until := workers.Forever()
			if tt.until > 0 {
				until = time.Now().Add(tt.until)
			}
			f.bar(tt.cause, until)

			got := f.post(t, "/v1/chat/completions", chatRequest)

			if got.status != http.StatusServiceUnavailable || got.header.Get("Retry-After") != tt.want || got.header.Get("X-Smg-Error-Code") != "no_available_workers" {
				t.Errorf("answer = %d, Retry-After %q, %s, want 503 and %s", got.status, got.header.Get("Retry-After"), got.body, tt.want)
			}
			f.wantUntouched(t)
		})
	}
}

func TestBackpressureIsWaitedFor(t *testing.T) {
	f := newFleet(t, "sglang", reply(200, `{}`), reply(200, chatAnswer))
	begin := time.Now()
	f.bar(workers.Backpressure, begin.Add(200*time.Millisecond))

	got := f.post(t, "/v1/chat/completions", chatRequest)

	if took := time.Since(begin); got.status != http.StatusOK || took < 200*time.Millisecond {
		t.Errorf("answer = %d %s after %v, want 200 when the backpressure is over", got.status, got.body, took)
	}
}

// TestShutdownWhileWaiting: who waits for a worker when the daemon stops is
// told so.
func TestShutdownWhileWaiting(t *testing.T) {
	f := newFleet(t, "sglang", hang, hang)
	f.bar(workers.Backpressure, workers.Forever())
	base, cut := context.WithCancelCause(context.Background())
	srv := httptest.NewUnstartedServer(f.handler)
	srv.Config.BaseContext = func(net.Listener) context.Context { return base }
	srv.Start()
	defer srv.Close()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, srv.URL+"/v1/chat/completions", strings.NewReader(chatRequest))
	if err != nil {
		t.Fatal(err)
	}
	answered := make(chan string, 1)
	go func() {
		defer close(answered)
		resp, err := (&http.Client{Transport: &http.Transport{DisableKeepAlives: true}}).Do(req)
		if err != nil {
			t.Error(err)
			return
		}
		defer resp.Body.Close()
		answered <- resp.Status + " " + resp.Header.Get("X-Smg-Error-Code")
	}()
	wait(t, "the request to come", func() bool { return len(f.handler.Ages()) == 1 })
	cut(ErrDrained)
	if got, want := <-answered, "503 Service Unavailable shutting_down"; got != want {
		t.Errorf("answer = %s, want %s", got, want)
	}
}

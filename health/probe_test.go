package health

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"pdrouter/exchange"
	"pdrouter/workers"
)

// engine returns a worker behind which a real server answers.
func engine(t *testing.T, h http.HandlerFunc) *workers.Worker {
	t.Helper()
	s := httptest.NewServer(h)
	t.Cleanup(s.Close)
	peer, err := exchange.NewPeer(s.URL, exchange.DefaultConfig())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(peer.Close)
	return &workers.Worker{ID: "decode-0", Spec: workers.Spec{URL: s.URL, APIKey: "secret"}, Peer: peer}
}

func status(code int) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(code) }
}

func TestProbe(t *testing.T) {
	for name, c := range map[string]struct {
		handler http.HandlerFunc
		want    answerKind
		told    bool
		reason  string
	}{
		"200 is well":                      {status(200), answering, false, ""},
		"429 is well: it has enough to do": {status(429), answering, false, ""},
		"401 is about our key":             {status(401), answering, false, "--worker-api-key"},
		"403 is about our key":             {status(403), answering, false, "--worker-api-key"},
		"404 is about our path":            {status(404), answering, false, "--health-check-endpoint"},
		"503 is the engine's own word":     {status(503), failing, true, "/health: status 503"},
		"500 is the engine's own word":     {status(500), failing, true, "/health: status 500"},
		"a redirect is nothing to rely on": {status(302), failing, false, "/health: status 302"},
		"a connection that is cut is a failure": {func(w http.ResponseWriter, _ *http.Request) {
			panic(http.ErrAbortHandler)
		}, failing, false, "/health: "},
		"a page without end is read no further than needed": {func(w http.ResponseWriter, r *http.Request) {
			for r.Context().Err() == nil {
				if _, err := w.Write(make([]byte, 4096)); err != nil {
					return
				}
			}
		}, answering, false, ""},
		"the worker's own key is sent": {func(w http.ResponseWriter, r *http.Request) {
			if r.Header.Get("Authorization") != "Bearer secret" || r.URL.Path != "/health" || r.Method != http.MethodGet {
				w.WriteHeader(500)
			}
		}, answering, false, ""},
	} {
		t.Run(name, func(t *testing.T) {
			got := probe(t.Context(), engine(t, c.handler), "/health")
			if got.kind != c.want || got.told != c.told || !strings.Contains(got.reason, c.reason) || (c.reason == "") != (got.reason == "") {
				t.Errorf("probe = %+v, want kind %v, told %v, reason with %q", got, c.want, c.told, c.reason)
			}
		})
	}
}

func TestProbeIsBoundedInTime(t *testing.T) {
	w := engine(t, func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() })
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	if got := probe(ctx, w, "/health"); got.kind != failing || got.reason != "/health: no answer in time" {
		t.Errorf("probe = %+v", got)
	}
	gaveUp, cancel := context.WithCancel(t.Context())
	cancel()
	if got := probe(gaveUp, w, "/health"); got.kind != noAnswer {
		t.Errorf("a probe that we gave up = %+v", got)
	}
}

func TestOurOwnShortageIsNotTheEngines(t *testing.T) {
	for _, err := range []error{
		&exchange.Error{Phase: exchange.Dial, Err: exchange.ErrTooManyConnections},
		&exchange.Error{Phase: exchange.Head, Stale: true, Err: errors.New("EOF")},
	} {
		if got := unanswered(t.Context(), "/health", err); got.kind != noAnswer {
			t.Errorf("unanswered(%v) = %+v", err, got)
		}
	}
}

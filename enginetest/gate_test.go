package enginetest

import (
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"sync"
	"testing"
)

// A gate stands between the router and an engine. It passes all, but for one
// POST that it is told to hold.
type gate struct {
	url string

	mu   sync.Mutex
	came chan struct{} // closed when the held one is there; nil: nothing is to be held
	open chan struct{} // closed to let it go
}

func newGate(t *testing.T, engine string) *gate {
	target, err := url.Parse(engine)
	if err != nil {
		t.Fatal(err)
	}
	g := &gate{}
	pass := &httputil.ReverseProxy{Rewrite: func(r *httputil.ProxyRequest) { r.SetURL(target) }, FlushInterval: -1}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodPost {
			g.wait()
		}
		pass.ServeHTTP(w, r)
	}))
	t.Cleanup(server.Close)
	g.url = server.URL
	return g
}

// hold has the gate hold the next POST; the channel is closed when it is there.
func (g *gate) hold() <-chan struct{} {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.came, g.open = make(chan struct{}), make(chan struct{})
	return g.came
}

func (g *gate) release() {
	g.mu.Lock()
	defer g.mu.Unlock()
	close(g.open)
}

func (g *gate) wait() {
	g.mu.Lock()
	came, open := g.came, g.open
	g.came = nil
	g.mu.Unlock()
	if came != nil {
		close(came)
		<-open
	}
}

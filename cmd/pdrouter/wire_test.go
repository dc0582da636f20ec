package main

import (
	"fmt"
	"strings"
	"testing"

	toxiproxy "github.com/Shopify/toxiproxy/v2"
	"github.com/rs/zerolog"
	"go.uber.org/goleak"

	"pdrouter/sim"
)

// A wire is a network between the router and one engine, which can be made bad.
type wire struct{ *toxiproxy.Proxy }

// newWire lays a wire to e, until the test ends.
func newWire(t *testing.T, e *sim.Engine) wire {
	t.Helper()
	server := toxiproxy.NewServer(toxiproxy.NewMetricsContainer(nil), zerolog.Nop())
	w := wire{toxiproxy.NewProxy(server, e.URL(), "127.0.0.1:0", strings.TrimPrefix(e.URL(), "http://"))}
	if err := w.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(w.Stop)
	return w
}

func (w wire) url() string { return "http://" + w.Listen }

// A toxic is what makes a wire bad.
type toxic struct {
	kind  string // toxiproxy's name of it
	attrs string // JSON
	up    bool   // on the way to the engine; else on that of its answers
}

// add makes the wire bad, for the connections that are there too.
func (w wire) add(t *testing.T, x toxic) {
	t.Helper()
	direction := "downstream"
	if x.up {
		direction = "upstream"
	}
	order := fmt.Sprintf(`{"type":%q,"stream":%q,"attributes":{%s}}`, x.kind, direction, x.attrs)
	if _, err := w.Toxics.AddToxicJson(strings.NewReader(order)); err != nil {
		t.Fatalf("toxic %s: %v", order, err)
	}
}

// relay makes the wire bad for all connections from now on, and ends those that
// are there: only then can toxiproxy reset one.
func (w wire) relay(t *testing.T, x toxic) {
	t.Helper()
	w.Stop()
	w.add(t, x)
	if err := w.Start(); err != nil {
		t.Fatal(err)
	}
}

// leaks returns the goroutines that are left, beside those of old and those that
// toxiproxy 2.5.0 leaves behind where a toxic ends a connection before its other
// side has said all: they wait for ever to pass on the rest.
func leaks(old ...goleak.Option) error {
	return goleak.Find(append(old,
		goleak.IgnoreAnyFunction("github.com/Shopify/toxiproxy/v2/toxics.(*ToxicStub).Run"),
		goleak.IgnoreAnyFunction("github.com/Shopify/toxiproxy/v2.(*ToxicLink).read"))...)
}

// wantNoLeaks wants that t leaves no goroutine behind.
func wantNoLeaks(t *testing.T) {
	t.Helper()
	old := goleak.IgnoreCurrent()
	t.Cleanup(func() {
		if err := leaks(old); err != nil {
			t.Error(err)
		}
	})
}

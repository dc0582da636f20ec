package tracing

import (
	"math"
	"strings"
	"testing"
)

const (
	ofClient = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
	unwanted = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-00"
)

// newTracer returns a Tracer with the defaults whose Run is not called.
func newTracer(t testing.TB, change func(*Config)) *Tracer {
	t.Helper()
	c := DefaultConfig()
	c.Enabled = true
	if change != nil {
		change(&c)
	}
	tr, err := New(c, Service{Version: "v1", Host: "h", Scheme: "http"}, func(Event) {})
	if err != nil {
		t.Fatal(err)
	}
	return tr
}

func TestWhoDecidesWhetherARequestIsTraced(t *testing.T) {
	for _, tt := range []struct {
		name, parent string
		ratio        float64
		flags        string // of what a leg is told; empty: the client's own goes up
		kept         bool
	}{
		{"the client wants it", ofClient, 0, "01", true},
		{"the client does not", unwanted, 1, "", false},
		{"the client says nothing", "", 1, "01", true},
		{"and chance does not want it", "", 0, "00", false},
		{"what the client says is malformed", ofClient[:54], 1, "01", true},
		{"a later version", "cc" + ofClient[2:] + "-more", 0, "01", true},
		{"a random trace ID, as level 2 has it", ofClient[:53] + "03", 0, "03", true},
		{"flags that we do not know are not passed on", ofClient[:53] + "f1", 0, "01", true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			tracer := newTracer(t, func(c *Config) { c.Ratio = tt.ratio })
			tr := tracer.Begin(tt.parent, "a=b")
			parent, state := tr.Leg(1, Prefill)
			if (tracer.Ending(&tr) != nil) != tt.kept {
				t.Errorf("kept %v, want %v", !tt.kept, tt.kept)
			}
			if tt.flags == "" {
				if parent != "" {
					t.Errorf("a leg is told %q", parent)
				}
				return
			}
			if !Valid(parent) || parent[53:] != tt.flags {
				t.Errorf("a leg is told %q, want flags %s", parent, tt.flags)
			}
			if ours := Valid(tt.parent); ours != (parent[3:35] == ofClient[3:35]) || ours != (state == "a=b") {
				t.Errorf("a leg is told %q %q of %q", parent, state, tt.parent)
			}
			if parent[36:52] == ofClient[36:52] {
				t.Error("a leg is told the client's span and not ours")
			}
		})
	}
}

func TestWithoutATracerNothingHappens(t *testing.T) {
	tracer, err := New(DefaultConfig(), Service{}, nil)
	if tracer != nil || err != nil {
		t.Fatalf("%v, %v; want none", tracer, err)
	}
	if n := testing.AllocsPerRun(100, func() {
		tr := tracer.Begin(ofClient, "a=b")
		if parent, _ := tr.Leg(1, Decode); parent != "" {
			t.Error(parent)
		}
		tracer.Send(tracer.Ending(&tr))
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

// TestSpansDiffer: the spans of a request, and those of requests in one trace,
// have IDs of their own.
func TestSpansDiffer(t *testing.T) {
	tracer := newTracer(t, nil)
	seen := map[spanID]bool{}
	for range 1000 {
		tr := tracer.Begin(ofClient, "")
		for n := range number(6, 0) {
			id := tr.span(n)
			if seen[id] || id == (spanID{}) {
				t.Fatalf("%x is there twice, or is zero", id)
			}
			seen[id] = true
		}
	}
}

func TestAsManyAreTracedAsWanted(t *testing.T) {
	const of = 20000
	tracer, n := newTracer(t, func(c *Config) { c.Ratio = 0.25 }), 0
	for range of {
		if tr := tracer.Begin("", ""); tr.sampled() {
			n++
		}
	}
	if math.Abs(float64(n)/of-0.25) > 0.02 {
		t.Errorf("%d of %d, want a quarter", n, of)
	}
}

func TestMalformedTraceparents(t *testing.T) {
	for name, s := range map[string]string{
		"empty": "", "short": ofClient[:40], "upper case": strings.ToUpper(ofClient), "no trace": "00-" + strings.Repeat("0", 32) + ofClient[35:],
		"no span": ofClient[:36] + strings.Repeat("0", 16) + "-01", "version ff": "ff" + ofClient[2:], "longer than its version": ofClient + "-x",
		"other separators": strings.ReplaceAll(ofClient, "-", "_"), "no hexadecimal digit": ofClient[:54] + "g",
	} {
		if Valid(s) {
			t.Errorf("%s: %q is taken", name, s)
		}
	}
}

func FuzzValid(f *testing.F) {
	f.Add(ofClient)
	f.Add("cc" + ofClient[2:] + "-more")
	tracer := newTracer(f, nil)
	f.Fuzz(func(t *testing.T, s string) {
		tr := tracer.Begin(s, "")
		parent, _ := tr.Leg(2, Decode)
		if parent != "" && !Valid(parent) {
			t.Errorf("%q makes %q", s, parent)
		}
		if Valid(s) && parent != "" && parent[3:35] != s[3:35] {
			t.Errorf("%q becomes %q", s, parent)
		}
	})
}

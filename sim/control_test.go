package sim

import (
	"encoding/json"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
)

// control sends a request to one of the paths of Config.Control.
func control(t *testing.T, e *Engine, method, path, body string) answer {
	t.Helper()
	req, err := http.NewRequest(method, e.URL()+path, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	return do(req)
}

func TestControl(t *testing.T) {
	var mu sync.Mutex
	var told []string
	p := newPair(t, VLLMNixl, func(c *Config) {
		c.Control = true
		c.APIKey = "secret"
		c.Violated = func(kind string) {
			mu.Lock()
			defer mu.Unlock()
			told = append(told, kind)
		}
	})
	fault, err := json.Marshal(Fault{Kind: FaultStatus, Path: "/health", Status: 418})
	if err != nil {
		t.Fatal(err)
	}
	if got := control(t, p.decode, "POST", FaultsPath, string(fault)); got.status != 204 {
		t.Fatalf("told to fail, it answers %+v", got)
	}
	if got := get(p.decode, "/health"); got.status != 418 {
		t.Errorf("/health of an engine that was told to fail = %+v, want 418", got)
	}
	if got := control(t, p.decode, "DELETE", FaultsPath, ""); got.status != 204 {
		t.Errorf("told to work again, it answers %+v", got)
	}
	if got := get(p.decode, "/health"); got.status != 200 {
		t.Errorf("/health of an engine that works again = %+v, want 200", got)
	}
	if got := control(t, p.decode, "POST", FaultsPath, "{"); got.status != 400 {
		t.Errorf("a fault that is no JSON is answered with %+v, want 400", got)
	}
	p.decode.violations.add(PulledTwice)
	var state State
	if err := json.Unmarshal([]byte(get(p.decode, StatePath).body), &state); err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(state.Violations, []string{PulledTwice}) || !slices.Equal(told, state.Violations) || state.Stats.TotalBlocks == 0 {
		t.Errorf("state = %+v and %q were told as they happened, want one violation %q and blocks", state, told, PulledTwice)
	}
}

// A fleet that is not under test cannot be told to fail by who reaches it.
func TestControlIsOffUnlessAsked(t *testing.T) {
	p := newPair(t, SGLang, nil)
	if got := control(t, p.decode, "POST", FaultsPath, `{"Kind":"reset"}`); got.status != 404 {
		t.Errorf("an engine without Control answers %+v, want 404", got)
	}
}

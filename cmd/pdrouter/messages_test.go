package main

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"pdrouter/sim"
)

// TestAnthropicClient has Anthropic's client ask for what is not carried: it
// understands the error, and does not ask again.
func TestAnthropicClient(t *testing.T) {
	root := clientsRoot(t, ".venv/ok")
	f := newFleet(t, fleetPlan{dialect: sim.VLLMNixl})
	cmd := exec.CommandContext(t.Context(), filepath.Join(root, ".venv/bin/python"), "testdata/clients/messages.py", f.base)
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	var got struct {
		Type   string
		Status int
		Body   struct{ Error map[string]string }
	}
	if err := json.Unmarshal(out, &got); err != nil {
		t.Fatalf("%s: %v", out, err)
	}
	says := got.Body.Error["message"]
	delete(got.Body.Error, "message")
	if got.Type != "HTTPNotImplementedError" || got.Status != 501 || !reflect.DeepEqual(got.Body.Error, map[string]string{"type": "api_error"}) ||
		!strings.Contains(says, "/v1/messages is not carried") {
		t.Errorf("the client threw %s", out)
	}
	if n := f.scraped(t).sum("smg_http_requests_total", `path="/v1/messages"`); n != 1 {
		t.Errorf("%v requests arrived, want 1: the router says that it is of no use", n)
	}
}

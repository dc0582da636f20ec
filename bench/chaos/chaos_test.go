package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"pdrouter/sim"
)

// TestRun is a few seconds of chaos, to see that this program works. What it is
// for is `make chaos`.
func TestRun(t *testing.T) {
	if testing.Short() {
		t.Skip("it takes several seconds and both cores")
	}
	o, err := parseOptions([]string{"-duration", "4s", "-c", "8", "-pause", "200ms", "-dialect", sim.SGLang, "-logs", t.TempDir(), "-seed", "5"}, os.Stderr)
	if err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	if err := run(t.Context(), o, &out); err != nil {
		t.Errorf("%v\n%s", err, out.String())
	}
	for _, want := range []string{"seed 5", "at rest after", "every invariant held", wholeAnswer, "events: "} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("it printed no %q:\n%s", want, out.String())
		}
	}
}

func TestOptions(t *testing.T) {
	for _, args := range []string{"-dialect trtllm", "-c 0", "-duration 0s", "-floor 2", "-race -router x", "more"} {
		if _, err := parseOptions(strings.Fields(args), new(bytes.Buffer)); err == nil {
			t.Errorf("%q is taken", args)
		}
	}
	o, err := parseOptions(nil, new(bytes.Buffer))
	if err != nil || o.seed == 0 || o.duration != 10*time.Minute || len(o.dialects) != 2 {
		t.Errorf("defaults = %+v, %v, want a seed, 10 minutes and both dialects", o, err)
	}
}

func TestAlarm(t *testing.T) {
	for text, alarms := range map[string]bool{
		`{"level":"warn","msg":"request failed"}` + "\n": false,
		"panic: lease ended twice\n\ngoroutine 1":        true,
		"WARNING: DATA RACE\n":                           true,
		`{"level":"error","msg":"panicked"}`:             true,
	} {
		log := filepath.Join(t.TempDir(), "log")
		if err := os.WriteFile(log, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if got := alarm(log); (got != "") != alarms {
			t.Errorf("alarm at %q = %q, want one: %t", text, got, alarms)
		}
	}
}

// What a router at rest exports, and what is wrong with it when it is not.
func TestNothingUnderWay(t *testing.T) {
	const rest = `# HELP x
smg_http_connections_active 0
smg_http_inflight_request_age_count{gt="0",le="30"} 0
smg_worker_requests_active{worker="a"} 0
smg_worker_requests_active{worker="b"} 0
pdrouter_buffered_request_bytes 0
smg_pd_kv_connector_mode_total{mode="x"} 3
pdrouter_legs_total{role="prefill",worker="a",outcome="ok"} 2
pdrouter_legs_total{role="prefill",worker="a",outcome="failed"} 1
pdrouter_legs_total{role="decode",worker="b",outcome="ok"} 3
`
	for name, change := range map[string][2]string{
		"":                                      {},
		"gauge smg_worker_requests_active is 1": {`{worker="b"} 0`, `{worker="b"} 1`},
		"there is no gauge pdrouter_buffered_request_bytes":  {"pdrouter_buffered_request_bytes 0\n", ""},
		"1 decode legs have not been counted at their end":   {`outcome="ok"} 3`, `outcome="ok"} 2`},
		"-1 prefill legs have not been counted at their end": {`outcome="failed"} 1`, `outcome="failed"} 2`},
	} {
		p, err := parsePage(strings.Replace(rest, change[0], change[1], 1))
		if err != nil {
			t.Fatal(err)
		}
		got := ""
		if err := nothingUnderWay(p, false); err != nil {
			got = err.Error()
		}
		if got != name {
			t.Errorf("nothingUnderWay = %q, want %q", got, name)
		}
	}
}

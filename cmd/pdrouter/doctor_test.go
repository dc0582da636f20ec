package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"pdrouter/doctor"
	"pdrouter/sim"
)

// While a router runs and serves, doctor finds that all is well, and what the
// router itself has against a worker.
func TestDoctorWhileARouterRuns(t *testing.T) {
	for _, dialect := range []string{sim.SGLang, sim.VLLMNixl} {
		t.Run(dialect, func(t *testing.T) {
			o := operate(t, dialect)
			o.traffic(2)
			args := []string{"doctor", "--json", "--port", "0", "--prometheus-port", "0", "--admin-socket", o.socket, "--upstream-pool-idle-timeout-secs", "0.1"}
			for _, e := range o.prefill {
				args = append(args, "--prefill", e.URL())
			}
			for _, e := range o.decode {
				args = append(args, "--decode", e.URL())
			}
			o.await(5)
			found := examined(t, nil, args...)
			wantFound(t, found, doctor.Running, doctor.OK, "gives requests to all its workers: 2 prefill, 2 decode")
			wantFound(t, found, doctor.Pairs, doctor.OK, "4 of 4 pairs fit")
			if dialect == sim.VLLMNixl {
				wantFound(t, found, doctor.HandOffs, doctor.OK, "it has fetched")
			}
			if _, err := o.command("drain", "decode-1"); err != nil {
				t.Fatal(err)
			}
			wantFound(t, examined(t, nil, args...), doctor.Running, doctor.Warning, "decode-1 "+o.decode[1].URL()+": it is dra")
			wantFound(t, examined(t, errFaults, append(args, "--decode", "http://127.0.0.1:9")...), doctor.Engines, doctor.Fault, "connection refused")
		})
	}
}

// examined runs doctor, which must end with that error.
func examined(t *testing.T, want error, args ...string) []doctor.Finding {
	t.Helper()
	out, err := runCommand(t, args...)
	var said struct {
		OK       bool
		Findings []doctor.Finding
	}
	if wrong := json.Unmarshal([]byte(out), &said); wrong != nil || err != want || said.OK != (want == nil) { //nolint:errorlint // nothing wraps it
		t.Fatalf("%v, want %v; %v\n%s", err, want, wrong, out)
	}
	return said.Findings
}

func wantFound(t *testing.T, found []doctor.Finding, check string, status doctor.Status, words string) {
	t.Helper()
	for _, f := range found {
		if f.Check == check && f.Status == status && strings.Contains(f.Where+": "+f.What, words) {
			return
		}
	}
	t.Errorf("no %s of %s with %q among\n%+v", status, check, words, found)
}

func TestHoldsKeys(t *testing.T) {
	for text, want := range map[string]bool{
		"port: 1\n": false, "#api-key: k\n": false, "api-key: k\n": true, "admin-api-key: [a]\n": true,
		"decode:\n  - url: http://a\n    api-key: k\n": true, "decode:\n  - api-key: k\n    url: http://a\n": true,
	} {
		in := newIntake()
		in.file = filepath.Join(t.TempDir(), "f")
		if err := os.WriteFile(in.file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if got := in.holdsKeys(); got != want {
			t.Errorf("holdsKeys of %q = %v, want %v", text, got, want)
		}
	}
}

package main

import (
	"bufio"
	"errors"
	"os/exec"
	"strings"
	"testing"
	"time"

	"pdrouter/keys"
	"pdrouter/sim"
)

// curlOf returns a curl that posts a chat, and is killed if the test ends first.
func curlOf(t *testing.T, base string, body map[string]any, options ...string) *exec.Cmd {
	t.Helper()
	if _, err := exec.LookPath("curl"); err != nil {
		missing(t, "curl is missing")
	}
	options = append(options, "--max-time", "30", "-H", "Content-Type: application/json", "-d", jsonOf(t, body), base+"/v1/chat/completions")
	return exec.CommandContext(t.Context(), "curl", options...)
}

// TestCurlSeesEventsAsTheyAreMade runs curl -N: what takes a second to be made
// takes a second to come, and ends as OpenAI's streams do.
func TestCurlSeesEventsAsTheyAreMade(t *testing.T) {
	for _, dialect := range []string{sim.SGLang, sim.VLLMNixl} {
		t.Run(dialect, func(t *testing.T) {
			t.Parallel()
			const pace = 100 * time.Millisecond
			f := newFleet(t, fleetPlan{dialect: dialect, engine: func(c *sim.Config) { c.DecodePerToken = pace }})
			curl := curlOf(t, f.base, chatOf(riverQuestion, streamed()), "-sSN")
			out, err := curl.StdoutPipe()
			if err != nil {
				t.Fatal(err)
			}
			if err := curl.Start(); err != nil {
				t.Fatal(err)
			}
			var came []time.Time
			last := ""
			for lines := bufio.NewScanner(out); lines.Scan(); {
				if data, is := strings.CutPrefix(lines.Text(), "data: "); is {
					came, last = append(came, time.Now()), data
				}
			}
			if err := curl.Wait(); err != nil {
				t.Error(err)
			}
			if len(came) < 12 || last != "[DONE]" {
				t.Fatalf("curl had %d events, the last one %q", len(came), last)
			}
			if took := came[len(came)-1].Sub(came[0]); took < 6*pace {
				t.Errorf("all events came within %v, want those of 12 tokens, one every %v", took, pace)
			}
		})
	}
}

// TestCurlFails runs curl -f, as scripts do: it ends with status 22 and says the
// status of the answer, for streams too.
func TestCurlFails(t *testing.T) {
	f := newFleet(t, fleetPlan{dialect: sim.SGLang, config: func(c *Config) { c.Router.MaxBodyBytes = 8 << 10 }})
	keyed := newFleet(t, fleetPlan{dialect: sim.SGLang, config: func(c *Config) { c.Router.APIKeys = keys.Of("right") }})
	sick := newFleet(t, fleetPlan{dialect: sim.VLLMNixl, config: func(c *Config) { c.Router.Retries.Attempts = 1 }})
	for _, e := range sick.decode {
		e.Fail(sim.Fault{Kind: sim.FaultErrorFrame})
	}
	for _, tt := range []struct {
		name, base, says string
		body             map[string]any
	}{
		{"an unknown model", f.base, "404", chatOf(riverQuestion, streamed(), map[string]any{"model": "nobody"})},
		{"a body that is too large", f.base, "413", chatOf(prompt(1, 9000))},
		{"no key", keyed.base, "401", chatOf(riverQuestion, streamed())},
		{"an error as the first event of an engine's stream", sick.base, "500", chatOf(riverQuestion, streamed())},
	} {
		out, err := curlOf(t, tt.base, tt.body, "-sSfN").CombinedOutput()
		if exit := (*exec.ExitError)(nil); !errors.As(err, &exit) || exit.ExitCode() != 22 || !strings.Contains(string(out), tt.says) {
			t.Errorf("%s: curl -f ended with %v, saying %q; want status 22 and %s", tt.name, err, out, tt.says)
		}
	}
}

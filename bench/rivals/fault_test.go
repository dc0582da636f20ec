package main

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"testing"

	"pdrouter/sim"
)

func TestJudgeOfAnswers(t *testing.T) {
	right, err := sim.Expect(chat, order{n: 1, stream: true}.body())
	if err != nil {
		t.Fatal(err)
	}
	event := `data: {"choices":[{"delta":{"content":"` + right[0] + `"}}]}` + "\n\n"
	end := "data: [DONE]\n\n"
	for _, c := range []struct {
		name, body        string
		status            int
		right, told, done bool
	}{
		{"a whole stream is right", event + end, 200, true, false, true},
		{"a stream without its end is not, and nobody is told", event, 200, false, false, false},
		{"an error event tells", event + `data: {"error":{"message":"x"}}` + "\n\n", 200, false, true, false},
		{"an error event with [DONE] is told and done", `data: {"error":{"message":"x"}}` + "\n\n" + end, 200, false, true, true},
		{"another text is not right", `data: {"choices":[{"delta":{"content":"no"}}]}` + "\n\n" + end, 200, false, false, true},
		{"a status tells", "", 502, false, true, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				w.WriteHeader(c.status)
				_, _ = w.Write([]byte(c.body))
			}))
			defer srv.Close()
			got := (&proxy{url: srv.URL}).ask(t.Context(), order{n: 1, stream: true})
			if got.right() != c.right || got.told() != c.told || got.done() != c.done {
				t.Errorf("right, told, done = %t, %t, %t (%s)", got.right(), got.told(), got.done(), got)
			}
		})
	}
}

func TestSilenceIsNoAnswerAndNotTold(t *testing.T) {
	r := reply{status: 200, hung: true, err: context.DeadlineExceeded}
	if r.told() || r.String() != "no answer within 10s" {
		t.Errorf("told = %t, %q, want a client that was told nothing", r.told(), r)
	}
	broken := reply{status: 200, err: errors.New("reset")}
	if !broken.told() {
		t.Error("a broken connection must tell")
	}
}

func TestFleetFailsAndRests(t *testing.T) {
	f, err := newFleet(t.Context(), sim.SGLang, pairs(), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer f.stop()
	if n := len(f.flags()); n != 2*3+2*2 || !f.atRest() {
		t.Errorf("%d flags, at rest %t, want 10 and true", n, f.atRest())
	}
	fail(f.prefills, sim.Fault{Kind: sim.FaultStatus, Status: 418})
	got := (&proxy{url: f.prefills[0].URL()}).ask(t.Context(), order{})
	if got.status != 418 {
		t.Errorf("status = %d, want the one that the engine was told", got.status)
	}
}

func TestOpenBreakersAreThoseOfTheEngines(t *testing.T) {
	f, err := newFleet(t.Context(), sim.SGLang, pairs(), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer f.stop()
	gauge := func(family string, e *sim.Engine, value string) string {
		return family + `{worker="` + e.URL() + `"} ` + value + "\n"
	}
	page := gauge("smg_worker_cb_state", f.prefills[0], "1") + gauge("smg_worker_cb_state", f.prefills[1], "0") +
		gauge("smg_worker_cb_state", f.decodes[0], "1") + gauge("smg_worker_health", f.prefills[1], "1")
	if open, known := openBreakers(page, f.prefills); open != 1 || known != 2 {
		t.Errorf("%d of %d breakers are open, want 1 of 2", open, known)
	}
}

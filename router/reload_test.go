package router

import (
	"net/http"
	"testing"
	"time"
)

// TestReload puts another configuration in force for the requests that come
// after it.
func TestReload(t *testing.T) {
	f := newServingFleet(t)
	cfg := f.handler.standing.Load().Config
	want := func(what string, got answer, status int) {
		t.Helper()
		if got.status != status {
			t.Errorf("%s: answer = %d %s, want %d", what, got.status, got.body, status)
		}
	}
	want("at first", f.postWith(t), 200)

	cfg.APIKeys = []string{"new"}
	f.handler.Reload(cfg)
	want("without a key", f.postWith(t), 401)
	want("with one", f.postWith(t, "Authorization: Bearer new"), 200)

	cfg.APIKeys, cfg.MaxBodyBytes = []string{"newer"}, 10
	f.handler.Reload(cfg)
	want("with the key of before", f.postWith(t, "Authorization: Bearer new"), 401)
	want("with a body that is too long", f.postWith(t, "Authorization: Bearer newer"), 413)

	cfg.APIKeys, cfg.MaxBodyBytes, cfg.CORSOrigins = nil, 1<<20, []string{"https://good.example"}
	cfg.RequestIDHeaders = []string{"x-mine"}
	f.handler.Reload(cfg)
	got := f.postWith(t, "Origin: https://good.example", "X-Mine: 4711")
	want("with none", got, 200)
	if origin, id := got.header.Get("Access-Control-Allow-Origin"), got.header.Get("X-Request-Id"); origin != "https://good.example" || id != "4711" {
		t.Errorf("answer to %q, called %q", origin, id)
	}
}

// TestReloadAmidARequest leaves that as it began: its key, and the time that it
// has.
func TestReloadAmidARequest(t *testing.T) {
	begun, end := make(chan struct{}), make(chan struct{})
	slow := func(w http.ResponseWriter, r *http.Request) {
		close(begun)
		<-end
		reply(200, chatAnswer)(w, r)
	}
	f := newFleet(t, "sglang", reply(200, chatAnswer), slow, func(c *Config) { c.APIKeys = []string{"old"} })
	cfg := f.handler.standing.Load().Config
	answers := make(chan answer, 1)
	go func() { answers <- f.postWith(t, "Authorization: Bearer old") }()
	<-begun
	cfg.APIKeys, cfg.MaxAnswerBytes, cfg.RequestTimeout = []string{"new"}, 1, time.Nanosecond
	f.handler.Reload(cfg)
	close(end)
	if got := <-answers; got.status != 200 || got.body != chatAnswer {
		t.Errorf("answer = %d %s, want it as if nothing had changed", got.status, got.body)
	}
}

// TestOneConfigurationCostsNoMemory for each request.
func TestOneConfigurationCostsNoMemory(t *testing.T) {
	h := newServingFleet(t).handler
	c := &call{}
	if n := testing.AllocsPerRun(100, func() { c.cfg = h.standing.Load() }); n > 0 {
		t.Errorf("%v allocations, want none", n)
	}
}

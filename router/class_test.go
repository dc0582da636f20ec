package router

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"pdrouter/transfer"
	"pdrouter/workers"
)

func TestParseClass(t *testing.T) {
	for word, want := range map[string]Class{
		"system": System, "SyStEm": System, " interactive ": Interactive, "default": Default, "BULK": Bulk,
		"-1": Bulk, "0": Default, "1": Interactive, "2": System, "7": System, "-9": Bulk,
	} {
		if got, ok := ParseClass(word); !ok || got != want || !strings.EqualFold(got.String(), ClassNames()[System-want]) {
			t.Errorf("ParseClass(%q) = %v, %v, want %v", word, got, ok, want)
		}
	}
	for _, word := range []string{"", "high", "1.5", "0x1", "99999999999"} {
		if c, ok := ParseClass(word); ok {
			t.Errorf("ParseClass(%q) = %v, want none", word, c)
		}
	}
}

func TestClassOfARequest(t *testing.T) {
	header := func(lines ...string) http.Header {
		h := http.Header{}
		for i := 0; i < len(lines); i += 2 {
			h.Set(lines[i], lines[i+1])
		}
		return h
	}
	const body = `{"model":"m","messages":[],"priority":%s}`
	tests := []struct {
		name, dialect, most string
		header              http.Header
		body                string
		want                Class
		claim               string
	}{
		{"says nothing", "sglang", "system", nil, "", Default, ""},
		{"says it in a header", "sglang", "system", header("X-Priority", "interactive"), "", Interactive, "honoured"},
		{"says it in smg's header", "sglang", "system", header("x-smg-priority", "Bulk"), "", Bulk, "honoured"},
		{"says two things", "sglang", "system", header("x-smg-priority", "bulk", "x-priority", "system"), "", System, "honoured"},
		{"says it in a number", "sglang", "system", header("X-Priority", "1"), "", Interactive, "honoured"},
		{"says what is no class", "sglang", "system", header("X-Priority", "urgent"), "2", Default, "unknown"},
		{"says an empty word", "sglang", "system", header("X-SMG-Priority", ""), "", Default, "unknown"},
		{"says it in the body, where SGLang takes the higher first", "sglang", "system", nil, "1", Interactive, "honoured"},
		{"says it in the body, where vLLM takes the lower first", "vllm-nixl", "system", nil, "1", Bulk, "honoured"},
		{"says the least in the body, to vLLM", "vllm-nixl", "system", nil, "-99", System, "honoured"},
		{"says null in the body", "sglang", "system", nil, "null", Default, ""},
		{"says a word in the body, which engines refuse", "sglang", "system", nil, `"high"`, Default, ""},
		{"says it in both", "vllm-nixl", "system", header("X-Priority", "bulk"), "-2", Bulk, "honoured"},
		{"claims more than it gets", "sglang", "default", header("X-Priority", "system"), "", Default, "capped"},
		{"claims less than it gets", "sglang", "default", header("X-Priority", "bulk"), "", Bulk, "honoured"},
		{"says nothing where all is bulk", "sglang", "bulk", nil, "", Bulk, ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			f := newFleet(t, tt.dialect, reply(200, chatAnswer), reply(200, chatAnswer), func(c *Config) { c.MaxClass = tt.most })
			text := chatRequest
			if tt.body != "" {
				text = fmt.Sprintf(body, tt.body)
			}
			req, err := transfer.Parse(transfer.Chat, []byte(text))
			if err != nil {
				t.Fatal(err)
			}
			if got := f.handler.classOf(&call{cfg: f.handler.standing.Load(), r: &http.Request{Header: tt.header}, dialect: tt.dialect}, req); got != tt.want {
				t.Errorf("class = %v, want %v", got, tt.want)
			}
			for _, claim := range []string{"honoured", "capped", "unknown"} {
				want := 0.0
				if claim == tt.claim {
					want = 1
				}
				if got := f.value(t, "pdrouter_priority_claims_total", map[string]string{"claim": claim}); got != want {
					t.Errorf("%v claims are %s, want %v", got, claim, want)
				}
			}
		})
	}
}

// TestPriorityIsPassedOn: engines read it too (I5). The header is for us.
func TestPriorityIsPassedOn(t *testing.T) {
	f := newFleet(t, "sglang", reply(200, chatAnswer), reply(200, chatAnswer))
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, f.URL+"/v1/chat/completions", strings.NewReader(`{"priority": 5,"model":"m","messages":[]}`))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("X-Priority", "bulk")

	got := do(t, req)

	legs := f.decode.got()
	if got.status != http.StatusOK || len(legs) != 1 || !strings.Contains(legs[0].body, `"priority": 5,`) || legs[0].header.Get("X-Priority") != "" {
		t.Errorf("answer %d; decode got %+v, want the body's priority and no header", got.status, legs)
	}
}

func TestTenants(t *testing.T) {
	h := &Handler{}
	h.seed = newHandler(nil, nil, nil).seed
	of := func(authorization ...string) uint64 {
		return h.tenantOf(&call{r: &http.Request{Header: http.Header{"Authorization": authorization}}})
	}
	for _, nobody := range [][]string{nil, {""}, {"Bearer"}, {"Bearer "}, {"Basic dXNlcg=="}} {
		if got := of(nobody...); got != 0 {
			t.Errorf("tenant of %q = %d, want 0", nobody, got)
		}
	}
	if a, b := of("Bearer one"), of("Bearer two"); a == 0 || a == b || a != of("bearer  one ") {
		t.Errorf("tenants of two keys = %d, %d, want two that are the same each time", a, b)
	}
	other := newHandler(nil, nil, nil)
	if of("Bearer one") == other.tenantOf(&call{r: &http.Request{Header: http.Header{"Authorization": {"Bearer one"}}}}) {
		t.Error("what stands for a key is the same in two processes")
	}
}

// TestWhoARequestIsCostsNoMemory of its own.
func TestWhoARequestIsCostsNoMemory(t *testing.T) {
	f := newFleet(t, "sglang", hang, hang)
	req, err := transfer.Parse(transfer.Chat, []byte(`{"model":"m","messages":[],"priority":1,"max_tokens":5}`))
	if err != nil {
		t.Fatal(err)
	}
	in := &call{cfg: f.handler.standing.Load(), r: &http.Request{Header: http.Header{"Authorization": {"Bearer key"}}}}
	headed := &call{cfg: f.handler.standing.Load(), r: &http.Request{Header: http.Header{"X-Priority": {"interactive"}}}}
	var need workers.Need
	if n := testing.AllocsPerRun(100, func() {
		need.Class, need.Tenant = int(f.handler.classOf(in, req)), f.handler.tenantOf(in)
		need.Class = int(f.handler.classOf(headed, req))
	}); n > 0 {
		t.Errorf("%v allocations, want none", n)
	}
}

// TestAShedIsNobodysFault: no engine was asked (I7).
func TestAShedIsNobodysFault(t *testing.T) {
	for _, timedOut := range []bool{false, true} {
		for _, lack := range []workers.Shortage{workers.OfSlots, workers.OfPrefill, workers.OfDecode} {
			e := errorFor(fmt.Errorf("lease: %w", &workers.ShedError{Shortage: lack, TimedOut: timedOut, RetryAfter: 1500 * time.Millisecond}))
			if e.Fault != nil || e.Again || e.Leg != "" || e.RetryAfter != "2" || e.Message == "" {
				t.Errorf("of a shortage of %s comes %+v, want no fault of anybody's, no other attempt, and Retry-After 2", lack, e)
			}
		}
	}
}

package sim

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/http"
	"strings"
	"syscall"
	"testing"
	"time"
)

// plain is a request that a vLLM decode engine serves alone.
func plain(stream bool) body {
	return body{"prompt": "abc", "max_tokens": 10, "ignore_eos": true, "stream": stream}
}

func TestFaults(t *testing.T) {
	p := newPair(t, VLLMNixl, nil)
	e := p.decode
	whole := Text("abc", 10)
	tests := []struct {
		name   string
		fault  Fault
		stream bool
		check  func(a answer) bool
	}{
		{"status", Fault{Kind: FaultStatus, Status: 503, Header: http.Header{"Retry-After": {"7"}}, Body: `{"x":1}`}, false, func(a answer) bool {
			return a.status == 503 && a.header.Get("Retry-After") == "7" && a.body == `{"x":1}`
		}},
		{"reset", Fault{Kind: FaultReset}, false, func(a answer) bool { return errors.Is(a.err, syscall.ECONNRESET) }},
		{"close", Fault{Kind: FaultClose}, false, func(a answer) bool { return a.status == 0 && errors.Is(a.err, io.EOF) }},
		{"garbage", Fault{Kind: FaultGarbage}, false, func(a answer) bool {
			return a.err != nil && strings.Contains(a.err.Error(), "malformed HTTP")
		}},
		{"not JSON", Fault{Kind: FaultNotJSON}, false, func(a answer) bool { return a.status == 200 && !json.Valid([]byte(a.body)) }},
		{"JSON cut with its right length", Fault{Kind: FaultCutJSON}, false, func(a answer) bool {
			return a.status == 200 && a.err == nil && strings.HasPrefix(a.body, `{"id"`) && !json.Valid([]byte(a.body))
		}},
		{"JSON shorter than its length", Fault{Kind: FaultShortJSON}, false, func(a answer) bool {
			return a.status == 200 && errors.Is(a.err, io.ErrUnexpectedEOF) && strings.HasPrefix(a.body, `{"id"`)
		}},
		{"error frame", Fault{Kind: FaultErrorFrame, Comments: 2, Status: 429, Body: "no"}, true, func(a answer) bool {
			return a.status == 200 && a.body == ": keep-alive\n\n: keep-alive\n\n"+
				`data: {"error": {"message": "no", "type": "InternalServerError", "param": null, "code": 429}}`+"\n\ndata: [DONE]\n\n"
		}},
		{"split", Fault{Kind: FaultSplit}, true, func(a answer) bool { return a.text() == whole && a.err == nil }},
		{"split JSON", Fault{Kind: FaultSplit}, false, func(a answer) bool { return a.text() == whole && a.err == nil }},
		{"comments", Fault{Kind: FaultComments, Comments: 3}, true, func(a answer) bool {
			return strings.HasPrefix(a.body, strings.Repeat(": keep-alive\n\n", 3)+"data:") && a.text() == whole
		}},
		{"die", Fault{Kind: FaultDie, Tokens: 4}, true, func(a answer) bool {
			return a.status == 200 && errors.Is(a.err, syscall.ECONNRESET)
		}},
		{"die at once", Fault{Kind: FaultDie}, false, func(a answer) bool { return errors.Is(a.err, syscall.ECONNRESET) }},
		{"close amid", Fault{Kind: FaultCloseMid, Tokens: 4}, true, func(a answer) bool {
			return errors.Is(a.err, io.ErrUnexpectedEOF) && a.text() == Text("abc", 4)
		}},
		{"end early", Fault{Kind: FaultEndEarly, Tokens: 4}, true, func(a answer) bool {
			return a.err == nil && a.text() == Text("abc", 4) && !strings.Contains(a.body, "[DONE]")
		}},
		{"other leg", Fault{Kind: FaultReset, Leg: Prefill}, false, func(a answer) bool { return a.text() == whole }},
		{"other path", Fault{Kind: FaultReset, Path: pathChat}, false, func(a answer) bool { return a.text() == whole }},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			e.Fail(tt.fault)
			defer e.ClearFaults()
			if a := send(e, pathCompletions, plain(tt.stream)); !tt.check(a) {
				t.Errorf("answer is %d %v, error %v: %q", a.status, a.header, a.err, a.body)
			}
		})
	}
	p.mustSay(t, send(e, pathCompletions, plain(true)), pathCompletions, plain(true))
	p.atRest()
}

func TestFaultsThatHang(t *testing.T) {
	p := newPair(t, VLLMNixl, nil)
	for _, tt := range []struct {
		name  string
		fault Fault
		head  bool
		text  string
	}{
		{"no head", Fault{Kind: FaultHang}, false, ""},
		{"only a head", Fault{Kind: FaultHangAfterHead}, true, ""},
		{"stall", Fault{Kind: FaultStall, Tokens: 3}, true, Text("abc", 3)},
	} {
		t.Run(tt.name, func(t *testing.T) {
			p.decode.Fail(tt.fault)
			defer p.decode.ClearFaults()
			ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
			defer cancel()
			a := sendContext(ctx, p.decode, pathCompletions, plain(true))
			if !errors.Is(a.err, context.DeadlineExceeded) || (a.status == 200) != tt.head || a.text() != tt.text {
				t.Errorf("answer is %d %v: %q", a.status, a.err, a.body)
			}
		})
	}
	p.atRest()
}

func TestSlowFault(t *testing.T) {
	p := newPair(t, VLLMNixl, nil)
	p.decode.Fail(Fault{Kind: FaultSlow, Delay: 5 * time.Millisecond})
	for _, stream := range []bool{true, false} {
		start := time.Now()
		p.mustSay(t, send(p.decode, pathCompletions, plain(stream)), pathCompletions, plain(stream))
		if d := time.Since(start); d < 50*time.Millisecond {
			t.Errorf("10 tokens at 5 ms took %v", d)
		}
	}
}

func TestFaultOnHealth(t *testing.T) {
	p := newPair(t, SGLang, nil)
	p.decode.Fail(Fault{Kind: FaultStatus, Path: "/health", Status: 503})
	if a := get(p.decode, "/health"); a.status != 503 {
		t.Errorf("health is %d, want 503", a.status)
	}
	p.decode.ClearFaults()
	p.decode.Fail(Fault{Kind: FaultSlow, Path: "/health", Delay: 20 * time.Millisecond})
	start := time.Now()
	get(p.decode, "/health").must(t)
	if d := time.Since(start); d < 20*time.Millisecond {
		t.Errorf("slow health took %v", d)
	}
}

func TestFaultCounts(t *testing.T) {
	p := newPair(t, VLLMNixl, nil)
	p.decode.Fail(Fault{Kind: FaultStatus, Status: 500, Nth: 2, Count: 2})
	var got []int
	for range 5 {
		got = append(got, send(p.decode, pathCompletions, plain(false)).status)
	}
	if want := []int{200, 500, 500, 200, 200}; !equal(got, want) {
		t.Errorf("statuses %v, want %v", got, want)
	}
}

func equal(a, b []int) bool {
	for i := range a {
		if len(a) != len(b) || a[i] != b[i] {
			return false
		}
	}
	return true
}

func TestPrefillDiesAfterHandOff(t *testing.T) {
	p := newPair(t, SGLang, nil)
	p.prefill.Fail(Fault{Kind: FaultDie})
	prefill, decode := p.sglang(pathCompletions, body{"prompt": "a"}, 1)
	if !errors.Is(prefill.err, syscall.ECONNRESET) {
		t.Errorf("prefill answers %d %v", prefill.status, prefill.err)
	}
	p.mustSay(t, decode, pathCompletions, body{"prompt": "a"})
	p.atRest()
}

func TestClientLeaves(t *testing.T) {
	tests := []struct {
		name    string
		dialect string
		while   func(p *pair) bool
		run     func(ctx context.Context, p *pair)
	}{
		{"SGLang prefill waits", SGLang, func(p *pair) bool { return p.prefill.rooms.waiting() == 1 }, func(ctx context.Context, p *pair) {
			sendContext(ctx, p.prefill, pathCompletions, body{"prompt": "a"}.with(p.handOffKeys(1)))
		}},
		{"SGLang decode waits", SGLang, func(p *pair) bool { return p.decode.Stats().Transferring == 1 }, func(ctx context.Context, p *pair) {
			sendContext(ctx, p.decode, pathCompletions, body{"prompt": "a"}.with(p.handOffKeys(1)))
		}},
		{"SGLang decode streams", SGLang, func(p *pair) bool { return p.decode.Stats().Running == 1 }, func(ctx context.Context, p *pair) {
			b := body{"prompt": "a", "max_tokens": 10000, "ignore_eos": true, "stream": true}.with(p.handOffKeys(1))
			go sendContext(ctx, p.prefill, pathCompletions, b)
			sendContext(ctx, p.decode, pathCompletions, b)
		}},
		{"vLLM decode streams", VLLMNixl, func(p *pair) bool { return p.decode.Stats().Running == 1 }, func(ctx context.Context, p *pair) {
			sendContext(ctx, p.decode, pathCompletions, body{"prompt": "a", "max_tokens": 10000, "ignore_eos": true, "stream": true})
		}},
		{"vLLM decode does not stream", VLLMNixl, func(p *pair) bool { return p.decode.Stats().Running == 1 }, func(ctx context.Context, p *pair) {
			sendContext(ctx, p.decode, pathCompletions, body{"prompt": "a", "max_tokens": 10000, "ignore_eos": true})
		}},
		{"vLLM prefill computes", VLLMNixl, func(p *pair) bool { return p.prefill.Stats().Running == 1 }, func(ctx context.Context, p *pair) {
			sendContext(ctx, p.prefill, pathCompletions, body{
				"prompt": strings.Repeat("a", 40000), "max_tokens": 1, "kv_transfer_params": body{"do_remote_decode": true},
			})
		}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			p := newPair(t, tt.dialect, func(c *Config) {
				c.DecodePerToken, c.PrefillPerToken = 5*time.Millisecond, time.Millisecond
				c.BootstrapTimeout, c.WaitingTimeout = time.Minute, time.Minute
			})
			ctx, cancel := context.WithCancel(t.Context())
			done := make(chan struct{})
			go func() { tt.run(ctx, p); close(done) }()
			eventually(t, tt.name, func() bool { return tt.while(p) })
			cancel()
			<-done
			p.atRest()
		})
	}
}

// A decode leg that gives up before it has the blocks frees them on prefill.
func TestDecodeThatGivesUpFreesBlocks(t *testing.T) {
	p := newPair(t, VLLMNixl, func(c *Config) { c.MaxRunning, c.DecodePerToken = 1, 5*time.Millisecond })
	ctx, cancel := context.WithCancel(t.Context())
	busy := later(func() answer {
		return sendContext(ctx, p.decode, pathCompletions, body{"prompt": "busy", "max_tokens": 10000, "ignore_eos": true})
	})
	eventually(t, "decode is busy", func() bool { return p.decode.Stats().Running == 1 })
	_, params := p.vllmPrefill(pathCompletions, body{"prompt": "b"})
	waiting, leave := context.WithCancel(t.Context())
	gone := later(func() answer {
		return sendContext(waiting, p.decode, pathCompletions, body{"prompt": "b", "kv_transfer_params": params})
	})
	eventually(t, "the leg waits", func() bool { return p.decode.Stats().Waiting == 1 })
	if p.prefill.Stats().HeldBlocks != 1 {
		t.Error("prefill holds nothing")
	}
	leave()
	<-gone
	eventually(t, "prefill's blocks are free", func() bool { return p.prefill.Stats().HeldBlocks == 0 })
	cancel()
	<-busy
	p.atRest()
}

func TestAbortOfStream(t *testing.T) {
	p := newPair(t, SGLang, func(c *Config) { c.DecodePerToken = 5 * time.Millisecond })
	for i, path := range []string{pathChat, pathGenerate} {
		b := body{
			"messages": []any{body{"role": "user", "content": "hi"}}, "text": "hi", "max_tokens": 1000, "ignore_eos": true,
			"sampling_params": body{"max_new_tokens": 1000, "ignore_eos": true}, "stream": true, "rid": "fixed-width-0001",
		}.with(p.handOffKeys(uint64(i)))
		first := later(func() answer { return send(p.prefill, path, b) })
		stream := later(func() answer { return send(p.decode, path, b) })
		(<-first).must(t)
		eventually(t, "decode generates", func() bool { return p.decode.Stats().Running == 1 })
		send(p.decode, "/abort_request", body{"rid": "fixed-width-0001"}).must(t)
		a := (<-stream).must(t)
		if !strings.HasSuffix(a.body, "data: [DONE]\n\n") || !strings.Contains(a.body, `"abort"`) {
			t.Errorf("aborted stream ends in %q", a.body[max(0, len(a.body)-400):])
		}
	}
	p.atRest()
}

func TestKeepAlive(t *testing.T) {
	p := newPair(t, SGLang, func(c *Config) { c.KeepAlive = 30 * time.Millisecond })
	c, err := net.Dial("tcp", p.decode.api.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	r := bufio.NewReader(c)
	for range 2 {
		if _, err := c.Write([]byte("GET /v1/models HTTP/1.1\r\nHost: x\r\n\r\n")); err != nil {
			t.Fatal(err)
		}
		resp, err := http.ReadResponse(r, nil)
		if err != nil {
			t.Fatal(err)
		}
		_, _ = io.Copy(io.Discard, resp.Body)
		resp.Body.Close()
	}
	_ = c.SetReadDeadline(time.Now().Add(5 * time.Second))
	if _, err := r.ReadByte(); !errors.Is(err, io.EOF) {
		t.Errorf("an idle connection ends in %v, want EOF", err)
	}
}

func TestRunEndsWithRequestsUnderWay(t *testing.T) {
	for _, dialect := range []string{SGLang, VLLMNixl} {
		p := newPair(t, dialect, func(c *Config) { c.DecodePerToken = time.Second })
		hanging := later(func() answer {
			b := body{"prompt": "a", "max_tokens": 100}
			if dialect == SGLang {
				b = b.with(p.handOffKeys(1))
			}
			return send(p.prefill, pathCompletions, b)
		})
		eventually(t, "it is under way", func() bool { return p.prefill.Stats().Requests == 1 })
		start := time.Now()
		if err := p.stopPrefill(); err != nil {
			t.Error(err)
		}
		if a := <-hanging; a.err == nil {
			t.Errorf("answer is %d %s", a.status, a.body)
		}
		if d := time.Since(start); d > 2*time.Second {
			t.Errorf("Run took %v to end", d)
		}
	}
}

package sim

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"
)

// saw checks that an engine has counted these violations and no others.
func saw(t *testing.T, e *Engine, kinds ...string) {
	t.Helper()
	if got := e.Violations(); !slices.Equal(got, kinds) {
		t.Errorf("%s counted %q, want %q", e.cfg.Role, got, kinds)
	}
}

// As in room_dup_a.json and room_dup_b.json.
func TestRoomUsedTwice(t *testing.T) {
	p := newPair(t, SGLang, nil)
	a := body{"prompt": "question of a", "max_tokens": 20}.with(p.handOffKeys(9))
	b := body{"prompt": "question of b", "max_tokens": 20}.with(p.handOffKeys(9))
	prefillA := later(func() answer { return send(p.prefill, pathCompletions, a) })
	eventually(t, "a waits", func() bool { return p.prefill.rooms.waiting() == 1 })
	prefillB := later(func() answer { return send(p.prefill, pathCompletions, b) })
	eventually(t, "b waits", func() bool { return p.prefill.rooms.waiting() == 2 })
	decodeB := send(p.decode, pathCompletions, b)
	(<-prefillA).must(t)
	(<-prefillB).must(t)
	if want := Answer("question of a", 20); decodeB.must(t).text() != strings.Join(want, "") {
		t.Errorf("b gets %q, want the answer to a: %q", decodeB.text(), want)
	}
	decodeA := send(p.decode, pathCompletions, a)
	if decodeA.status != 500 || !strings.Contains(decodeA.body, "KVPoll.WaitingForInput") {
		t.Errorf("a gets %d %s, want to wait in vain", decodeA.status, decodeA.body)
	}
	saw(t, p.prefill, RoomTwice)
	saw(t, p.decode, WrongPrompt)
	p.atRest()
}

func TestRoomUsedAgainLater(t *testing.T) {
	p := newPair(t, SGLang, nil)
	for _, prompt := range []string{"one", "two"} {
		b := body{"prompt": prompt}
		_, got := p.sglang(pathCompletions, b, 3)
		p.mustSay(t, got, pathCompletions, b)
	}
	p.clean()
	if n := p.prefill.Stats().ReusedRooms; n != 1 {
		t.Errorf("rooms used again: %d, want 1", n)
	}
}

func TestSGLangViolations(t *testing.T) {
	tests := []struct {
		name   string
		raw    func(port int) string
		kind   string
		status int
	}{
		{"no room", func(int) string { return `{"prompt":"a"}` }, NoRoom, 400},
		{"room is null", func(int) string { return `{"prompt":"a","bootstrap_room":null}` }, NoRoom, 400},
		{"float room", func(port int) string {
			return fmt.Sprintf(`{"prompt":"a","bootstrap_host":"127.0.0.1","bootstrap_port":%d,"bootstrap_room":1.5e3}`, port)
		}, FloatRoom, 200},
		{"room twice in a body", func(port int) string {
			return fmt.Sprintf(`{"bootstrap_room":5,"prompt":"a","bootstrap_host":"127.0.0.1","bootstrap_port":%d,"bootstrap_\u0072oom":6}`, port)
		}, DuplicateKey, 200},
		{"several samples", func(port int) string {
			return fmt.Sprintf(`{"prompt":"a","n":2,"bootstrap_host":"127.0.0.1","bootstrap_port":%d,"bootstrap_room":7}`, port)
		}, SeveralSamples, 500},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			p := newPair(t, SGLang, nil)
			raw := tt.raw(p.prefill.BootstrapPort())
			first := later(func() answer { return send(p.prefill, pathCompletions, raw) })
			for _, a := range []answer{send(p.decode, pathCompletions, raw), <-first} {
				if a.status != tt.status {
					t.Errorf("answer is %d, want %d: %s", a.status, tt.status, a.body)
				}
			}
			saw(t, p.prefill, tt.kind)
			saw(t, p.decode, tt.kind)
			p.atRest()
		})
	}
}

func TestRIDs(t *testing.T) {
	p := newPair(t, SGLang, nil)
	b := body{"prompt": "a", "rid": "req-1"}.with(p.handOffKeys(1))
	first := later(func() answer { return send(p.prefill, pathCompletions, b) })
	eventually(t, "the first waits", func() bool { return p.prefill.rooms.waiting() == 1 })
	again := send(p.prefill, pathCompletions, b.with(body{"bootstrap_room": 2}))
	if again.status != 400 || !strings.Contains(again.body, "Duplicate request ID detected: req-1") {
		t.Errorf("a second request of the same rid gets %d %s", again.status, again.body)
	}
	longer := later(func() answer {
		return send(p.prefill, pathCompletions, b.with(body{"rid": "req-10", "bootstrap_room": 3}))
	})
	eventually(t, "the longer waits", func() bool { return p.prefill.rooms.waiting() == 2 })
	send(p.prefill, "/abort_request", body{"rid": "req"}).must(t) // no such rid: nothing happens
	start := time.Now()
	send(p.prefill, "/abort_request", body{"rid": "req-1"}).must(t)
	for _, a := range []answer{<-first, <-longer} {
		if a.status != 500 || !strings.Contains(a.body, "Aborted by AbortReq.") {
			t.Errorf("an aborted request gets %d %s", a.status, a.body)
		}
	}
	if d := time.Since(start); d > 200*time.Millisecond {
		t.Errorf("abort took %v", d)
	}
	saw(t, p.prefill, RIDTwice, RIDPrefix)
	p.atRest()
}

func TestWrongPromptOnDecode(t *testing.T) {
	for _, dialect := range []string{SGLang, VLLMNixl} {
		p := newPair(t, dialect, nil)
		a, b := body{"prompt": "this was prefilled"}, body{"prompt": "and this is asked!"}
		var got answer
		if dialect == SGLang {
			first := later(func() answer { return send(p.prefill, pathCompletions, a.with(p.handOffKeys(1))) })
			got = send(p.decode, pathCompletions, b.with(p.handOffKeys(1)))
			<-first
		} else {
			_, params := p.vllmPrefill(pathCompletions, a)
			got = send(p.decode, pathCompletions, b.with(body{"kv_transfer_params": params}))
		}
		p.mustSay(t, got, pathCompletions, a)
		saw(t, p.decode, WrongPrompt)
		p.atRest()
	}
}

func TestVLLMPrefillLegViolations(t *testing.T) {
	good := body{"prompt": "abc", "max_tokens": 1, "kv_transfer_params": body{"do_remote_decode": true}}
	tests := []struct {
		name  string
		more  body
		kinds []string
	}{
		{"nothing wrong", nil, nil},
		{"streams", body{"stream": true}, []string{PrefillStreams}},
		{"two tokens", body{"max_tokens": 2}, []string{PrefillTokens}},
		{"no limit", body{"max_tokens": nil}, []string{PrefillTokens}},
		{"both limits, one of them wrong", body{"max_completion_tokens": 5}, []string{PrefillTokens}},
		{"both limits", body{"max_completion_tokens": 1}, nil},
		{"min_tokens", body{"min_tokens": 3}, []string{PrefillOptions}},
		{"stream_options", body{"stream_options": body{"include_usage": true}}, []string{PrefillOptions}},
		{"list of prompts", body{"prompt": []string{"a", "b"}}, []string{PrefillBatch}},
		{"echo and prompt logprobs belong there", body{"echo": true, "prompt_logprobs": 1}, nil},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			p := newPair(t, VLLMNixl, func(c *Config) { c.Lease = 20 * time.Millisecond })
			got := send(p.prefill, pathCompletions, good.with(tt.more)).must(t)
			if streams := tt.more["stream"] != nil; strings.Contains(got.body, "remote_block_ids") == streams {
				t.Errorf("streams %v, but the answer is %s", streams, got.body)
			}
			saw(t, p.prefill, tt.kinds...)
			p.atRest()
			if n := p.prefill.Stats().ExpiredHolds; n == 0 {
				t.Error("blocks were freed, but not by the end of the lease")
			}
		})
	}
}

func TestVLLMDecodeLegViolations(t *testing.T) {
	for _, more := range []body{{"echo": true}, {"prompt_logprobs": 0}} {
		p := newPair(t, VLLMNixl, nil)
		_, params := p.vllmPrefill(pathCompletions, body{"prompt": "abc"})
		send(p.decode, pathCompletions, body{"prompt": "abc", "kv_transfer_params": params}.with(more)).must(t)
		saw(t, p.decode, DecodePromptOutput)
	}
}

func TestUsedParametersAgain(t *testing.T) {
	const blocks = 4
	p := newPair(t, VLLMNixl, func(c *Config) { c.KVTokens, c.BlockSize = blocks*128, 128 })
	first := body{"prompt": strings.Repeat("1st ", 200)} // two blocks
	other := body{"prompt": strings.Repeat("2nd ", 200)}
	_, params := p.vllmPrefill(pathCompletions, first)
	leg := first.with(body{"kv_transfer_params": params})
	p.mustSay(t, send(p.decode, pathCompletions, leg), pathCompletions, first)
	saw(t, p.prefill)

	// At once: right, by luck.
	p.mustSay(t, send(p.decode, pathCompletions, leg), pathCompletions, first)
	saw(t, p.prefill, PulledTwice)
	saw(t, p.decode)

	// After another prompt has been in the same blocks: that one's answer.
	for range blocks / 2 {
		p.vllm(pathCompletions, other)
		p.prefill.sched.mu.Lock()
		p.prefill.sched.pool.flush()
		p.prefill.sched.mu.Unlock()
	}
	p.mustSay(t, send(p.decode, pathCompletions, leg), pathCompletions, other)
	saw(t, p.prefill, PulledTwice, PulledTwice)
	saw(t, p.decode, WrongPrompt)
	p.atRest()
}

func TestLeaseEnds(t *testing.T) {
	p := newPair(t, VLLMNixl, func(c *Config) { c.Lease = 30 * time.Millisecond })
	b := body{"prompt": "nobody asks for it"}
	_, params := p.vllmPrefill(pathCompletions, b)
	if st := p.prefill.Stats(); st.HeldBlocks != 1 || st.UsedBlocks != 1 || st.Running != 0 {
		t.Errorf("before its end: %+v", st)
	}
	p.atRest()
	p.mustSay(t, send(p.decode, pathCompletions, b.with(body{"kv_transfer_params": params})), pathCompletions, b)
	if st := p.decode.Stats(); st.Recomputes != 1 || st.ComputedTokens == 0 || st.ReceivedTokens != 0 {
		t.Errorf("decode has not computed the prompt itself: %+v", st)
	}
	p.clean()
}

// While a request queues on decode, the blocks are kept for it.
func TestHeartbeatsRenewLease(t *testing.T) {
	p := newPair(t, VLLMNixl, func(c *Config) {
		c.Lease, c.MaxRunning, c.DecodePerToken = 400*time.Millisecond, 1, 20*time.Millisecond
	})
	slow := later(func() answer {
		return send(p.decode, pathCompletions, body{"prompt": "slow", "max_tokens": 30, "ignore_eos": true})
	})
	eventually(t, "decode is busy", func() bool { return p.decode.Stats().Running == 1 })
	b := body{"prompt": "waits for longer than a lease", "max_tokens": 1}
	_, got := p.vllm(pathCompletions, b)
	p.mustSay(t, got, pathCompletions, b)
	(<-slow).must(t)
	if st := p.decode.Stats(); st.Recomputes != 0 {
		t.Error("the lease ended although the request was queueing")
	}
	p.atRest()
}

func TestParametersThatKill(t *testing.T) {
	p := newPair(t, VLLMNixl, nil)
	_, params := p.vllmPrefill(pathCompletions, body{"prompt": "abc"})
	params["remote_block_ids"] = nil
	ctx := context.Background()
	decode, err := New(Config{Dialect: VLLMNixl, Role: Decode, DecodePerToken: time.Second})
	if err != nil {
		t.Fatal(err)
	}
	died := make(chan error, 1)
	go func() { died <- decode.Run(ctx) }()
	victim := later(func() answer {
		return send(decode, pathCompletions, body{"prompt": "abc", "max_tokens": 1000, "ignore_eos": true})
	})
	eventually(t, "another request is served", func() bool { return decode.Stats().Running == 1 })
	got := send(decode, pathCompletions, body{"prompt": "abc", "kv_transfer_params": params})
	if a := <-victim; !errors.Is(a.err, syscall.ECONNRESET) {
		t.Errorf("the other request ends in %d %v, want a reset", a.status, a.err)
	}
	if got.status != 500 || !strings.Contains(got.body, "EngineCore encountered an issue") {
		t.Errorf("answer is %d %s", got.status, got.body)
	}
	if err := <-died; !errors.Is(err, ErrKilled) {
		t.Errorf("Run returns %v, want ErrKilled", err)
	}
	if a := get(decode, "/health"); a.err == nil {
		t.Errorf("a dead engine answers %d", a.status)
	}
	saw(t, decode, Killed)
}

func TestRequestWithoutIDKillsWhenItsClientLeaves(t *testing.T) {
	p := newPair(t, VLLMNixl, nil)
	_, params := p.vllmPrefill(pathCompletions, body{"prompt": "abc"})
	delete(params, "remote_request_id")
	decode, err := New(Config{Dialect: VLLMNixl, Role: Decode, DisconnectDelay: time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	died := make(chan error, 1)
	go func() { died <- decode.Run(t.Context()) }()
	ctx, leave := context.WithCancel(t.Context())
	hanging := later(func() answer {
		return sendContext(ctx, decode, pathCompletions, body{"prompt": "abc", "kv_transfer_params": params})
	})
	eventually(t, "it hangs", func() bool { return len(decode.Violations()) == 1 })
	leave()
	<-hanging
	if err := <-died; !errors.Is(err, ErrKilled) {
		t.Errorf("Run returns %v, want ErrKilled", err)
	}
	saw(t, decode, NoRequestID)
}

func TestIncompleteParameters(t *testing.T) {
	for _, key := range []string{"remote_engine_id", "remote_host", "remote_port"} {
		p := newPair(t, VLLMNixl, func(c *Config) { c.Lease = 20 * time.Millisecond })
		b := body{"prompt": "abc"}
		_, params := p.vllmPrefill(pathCompletions, b)
		delete(params, key)
		p.mustSay(t, send(p.decode, pathCompletions, b.with(body{"kv_transfer_params": params})), pathCompletions, b)
		saw(t, p.decode, BadParams)
		p.atRest()
	}
}

func TestPrefillGoneIsNoticedAtOnceIfKnown(t *testing.T) {
	p := newPair(t, VLLMNixl, func(c *Config) { c.HandshakeTimeout = 3 * time.Second })
	b := body{"prompt": "abc"}
	_, got := p.vllm(pathCompletions, b)
	got.must(t)
	_, params := p.vllmPrefill(pathCompletions, b)
	_ = p.stopPrefill()
	start := time.Now()
	for _, stream := range []bool{false, true} {
		got = send(p.decode, pathCompletions, b.with(body{"kv_transfer_params": params, "stream": stream}))
		if !strings.Contains(got.body, "Internal server error") || (got.status == 500) == stream {
			t.Errorf("with prefill dead: %d %s", got.status, got.body)
		}
	}
	if d := time.Since(start); d > 3*time.Second {
		t.Errorf("its end took %v to notice, though it was known", d)
	}
}

func TestBadBodies(t *testing.T) {
	for _, dialect := range []string{SGLang, VLLMNixl} {
		p := newPair(t, dialect, nil)
		for _, raw := range []string{``, `[]`, `{`, `{"prompt":"a"} {}`, `{"prompt":1}`, `{"max_tokens":"x"}`, `{}`, `{"prompt":"a","max_tokens":1e9}`} {
			if a := send(p.decode, pathCompletions, raw); a.status != 400 || !json.Valid([]byte(a.body)) {
				t.Errorf("%s answers %s with %d %s", dialect, raw, a.status, a.body)
			}
		}
		if a := get(p.decode, pathCompletions); a.status != 405 {
			t.Errorf("GET answers %d", a.status)
		}
	}
	p := newPair(t, VLLMNixl, nil)
	if a := send(p.decode, pathCompletions, body{"prompt": "a", "model": "other"}); a.status != 404 {
		t.Errorf("another model answers %d %s", a.status, a.body)
	}
}

func TestAPIKey(t *testing.T) {
	for dialect, free := range map[string][]string{
		SGLang:   {"/health", "/metrics"},
		VLLMNixl: {"/health", "/metrics", "/version"},
	} {
		p := newPair(t, dialect, func(c *Config) { c.APIKey = "secret" })
		if a := get(p.decode, "/v1/models"); a.status != 401 || a.body != `{"error":"Unauthorized"}` {
			t.Errorf("%s answers %d %s without its key", dialect, a.status, a.body)
		}
		for _, path := range free {
			get(p.decode, path).must(t)
		}
	}
}

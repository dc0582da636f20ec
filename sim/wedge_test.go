package sim

import (
	"context"
	"testing"
	"time"
)

// A wedged engine keeps its requests, makes nothing of them, and answers
// whoever asks how it is.
func TestWedge(t *testing.T) {
	for _, stream := range []bool{true, false} {
		p := newPair(t, VLLMNixl, nil)
		p.decode.Fail(Fault{Kind: FaultWedge, Tokens: 3})
		got := later(func() answer { return send(p.decode, pathCompletions, plain(stream)) })
		eventually(t, "three tokens", func() bool { return p.decode.Stats().DecodedTokens == 3 })
		get(p.decode, "/health").must(t)
		select {
		case a := <-got:
			t.Fatalf("it is answered: %v", a)
		case <-time.After(50 * time.Millisecond):
		}
		if st := p.decode.Stats(); st.Running != 1 || st.UsedBlocks == 0 || st.DecodedTokens != 3 {
			t.Errorf("the engine is %+v, want one request that runs, has blocks, and three tokens", st)
		}
		p.decode.ClearFaults()
		p.mustSay(t, <-got, pathCompletions, plain(stream))
		p.atRest()
	}
}

// A client may leave a wedged engine.
func TestLeaveWedged(t *testing.T) {
	p := newPair(t, VLLMNixl, nil)
	p.decode.Fail(Fault{Kind: FaultWedge})
	for range 2 {
		ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
		if a := sendContext(ctx, p.decode, pathCompletions, plain(true)); a.err == nil {
			t.Errorf("it is answered: %v", a)
		}
		cancel()
	}
	p.atRest()
}

// An engine cut off from one prefill engine serves whatever comes from others.
func TestCutOff(t *testing.T) {
	b := body{"prompt": "abc", "max_tokens": 4}
	for _, dialect := range []string{SGLang, VLLMNixl} {
		p := newPair(t, dialect, nil)
		run := func(room uint64) answer {
			if dialect == VLLMNixl {
				_, got := p.vllm(pathCompletions, b)
				return got
			}
			_, got := p.sglang(pathCompletions, b, room)
			return got
		}
		p.decode.Fail(Fault{Kind: FaultCutOff, Peer: "127.0.0.1:1"})
		p.mustSay(t, run(1), pathCompletions, b)
		p.decode.Fail(Fault{Kind: FaultCutOff, Peer: p.prefill.side.Addr().String(), Count: 1})
		if got := run(2); got.status != 500 {
			t.Errorf("%s: answer is %d %s, want 500", dialect, got.status, got.body)
		}
		p.mustSay(t, run(3), pathCompletions, b)
	}
}

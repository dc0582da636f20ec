package transfer

import (
	"errors"
	"strings"
	"testing"
)

func TestEveryNameHasItsDialect(t *testing.T) {
	for _, name := range Names() {
		d, ok := Lookup(name)
		if !ok || d.Traits().Name != name {
			t.Errorf("Lookup(%q) = %v, %v", name, d, ok)
		}
	}
	if _, ok := Lookup("grpc"); ok {
		t.Error("Lookup found a dialect that there is not")
	}
}

func TestWhatADialectDoesNotCarryIsRefusedByName(t *testing.T) {
	if !Carries(SGLang{}, Generate) || Carries(VLLMNIXL{}, Generate) || !Carries(VLLMNIXL{}, Chat) {
		t.Error("Carries is wrong about /generate or chat")
	}
	err := VLLMNIXL{}.Check(parse(t, Generate, `{"text":"a"}`))
	if bad, ok := errors.AsType[*BadRequest](err); !ok || bad.Code != CodeEndpoint || !strings.Contains(bad.Message, "/generate") || !strings.Contains(bad.Message, "vllm-nixl") {
		t.Errorf("Check = %v, want it to name endpoint and dialect", err)
	}
}

// TestReleaseLegFreesPrefillsBlocks: one token, not streamed, with the hand-off.
func TestReleaseLegFreesPrefillsBlocks(t *testing.T) {
	req := parse(t, Completions, `{"prompt":"a","stream":true,"stream_options":{},"max_tokens":9,"min_tokens":3,"echo":true}`)
	params := `{"do_remote_prefill":true,"remote_block_ids":[[1]],"remote_engine_id":"e","remote_request_id":"r","remote_host":"h","remote_port":1}`
	leg, err := VLLMNIXL{}.Release(req, Attempt{}, []byte(`{"kv_transfer_params":`+params+`}`))
	if err != nil || !leg.HandedOff {
		t.Fatalf("Release: handed off %v, error %v", leg.HandedOff, err)
	}
	want := `{"prompt":"a","stream":false,"max_tokens":1,"kv_transfer_params":` + params + `}`
	if got := legText(t, leg); got != want {
		t.Errorf("Release = %s, want %s", got, want)
	}
	if leg, err := (VLLMNIXL{}).Release(req, Attempt{}, []byte(`{}`)); err != nil || leg.HandedOff {
		t.Errorf("Release of nothing: handed off %v, error %v", leg.HandedOff, err)
	}
}

// TestAbortNamesEveryPrompt: SGLang drops an abort whose name it does not know.
func TestAbortNamesEveryPrompt(t *testing.T) {
	req := parse(t, Completions, `{"prompt":["a","b"]}`)
	a := testAttempt(req)
	decode, err := SGLang{}.Decode(req, a, nil)
	if err != nil {
		t.Fatal(err)
	}
	aborts := SGLang{}.Abort(req, a)
	if len(aborts) != 2 {
		t.Fatalf("%d aborts, want 2", len(aborts))
	}
	for _, l := range aborts {
		rid, _ := object([]byte(legText(t, l)))["rid"].(string)
		if rid == "" || !strings.Contains(legText(t, decode), `"`+rid+`"`) {
			t.Errorf("abort %s is of no prompt of %s", legText(t, l), legText(t, decode))
		}
	}
}

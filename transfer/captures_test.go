package transfer

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
)

// The files of testdata/captures are what real engines were sent and what they
// answered: vLLM 0.32.0 with NIXL, SGLang 0.5.23 with Mooncake. Some show what
// happens if a router does it wrong.

// An sglangCapture is one attempt, both legs given the same body.
type sglangCapture struct {
	Request   json.RawMessage
	Responses []struct {
		Leg    string
		Status int // 0 if the connection failed
		Body   string
	}
}

// A vllmCapture is one exchange with one engine.
type vllmCapture struct {
	URL      string
	Request  json.RawMessage
	Response struct {
		Status int
		JSON   json.RawMessage // a whole answer
		Raw    string          // a stream
	}
}

func readCapture[T any](t *testing.T, engine, name string) T {
	t.Helper()
	b, err := os.ReadFile(filepath.Join("testdata", "captures", engine, name+".json"))
	if err != nil {
		t.Fatal(err)
	}
	var c T
	if err := json.Unmarshal(b, &c); err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	return c
}

// captureNames returns the captures of an engine but those whose name begins
// with merge_, which have a shape of their own.
func captureNames(t *testing.T, engine string) []string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join("testdata", "captures", engine, "*.json"))
	if err != nil || len(files) == 0 {
		t.Fatalf("no captures of %s: %v", engine, err)
	}
	var names []string
	for _, f := range files {
		if name := strings.TrimSuffix(filepath.Base(f), ".json"); engine == "sglang" || !strings.HasPrefix(name, "merge_") {
			names = append(names, name)
		}
	}
	return names
}

// endpointFor tells an endpoint by the keys of a request.
func endpointFor(body []byte) Endpoint {
	switch m := object(body); {
	case m["messages"] != nil:
		return Chat
	case m["prompt"] != nil:
		return Completions
	}
	return Generate
}

// object decodes an object with its numbers as they are spelt.
func object(body []byte) map[string]any {
	var m map[string]any
	d := json.NewDecoder(bytes.NewReader(body))
	d.UseNumber()
	if d.Decode(&m) != nil {
		return nil
	}
	return m
}

// TestSGLangLegsAreWhatRealEnginesTook rebuilds the legs of each captured
// attempt from the client's part of it.
func TestSGLangLegsAreWhatRealEnginesTook(t *testing.T) {
	for _, name := range captureNames(t, "sglang") {
		t.Run(name, func(t *testing.T) {
			c := readCapture[sglangCapture](t, "sglang", name)
			req, err := Parse(endpointFor(c.Request), c.Request)
			if err != nil {
				t.Fatal(err)
			}
			if err := (SGLang{}).Check(req); err != nil {
				if name != "n2" {
					t.Errorf("Check: %v", err)
				}
				return
			}
			want := object(c.Request)
			a := capturedAttempt(t, want)
			if name == "no_room" || name == "no_port" || name == "batch_scalar" {
				return // not as we would send them
			}
			decode, err := SGLang{}.Decode(req, a, nil)
			if err != nil {
				t.Fatal(err)
			}
			sameBody(t, "decode leg", decode, want)
			prefill, err := SGLang{}.Prefill(req, a)
			if err != nil {
				t.Fatal(err)
			}
			delete(want, "stream_options")
			if want["stream"] == true {
				want["stream"] = false
			}
			sameBody(t, "prefill leg", prefill, want)
		})
	}
}

// capturedAttempt reads an attempt from a captured request. A request without
// rid gets ours.
func capturedAttempt(t *testing.T, m map[string]any) Attempt {
	t.Helper()
	a := Attempt{BootstrapHost: "127.0.0.1"}
	rooms, ok := m["bootstrap_room"].([]any)
	if !ok {
		rooms = []any{m["bootstrap_room"]}
	}
	for _, r := range rooms {
		n, _ := r.(json.Number)
		room, _ := n.Int64()
		a.Rooms = append(a.Rooms, uint64(room))
	}
	if ports, ok := m["bootstrap_port"].([]any); ok && len(ports) > 0 {
		m = map[string]any{"bootstrap_port": ports[0], "rid": m["rid"]}
	}
	if n, ok := m["bootstrap_port"].(json.Number); ok {
		port, _ := n.Int64()
		a.BootstrapPort = int(port)
	}
	switch rid := m["rid"].(type) {
	case string:
		a.ID = rid
	case []any:
		a.ID = strings.TrimSuffix(fmt.Sprint(rid[0]), "-0000")
	}
	return a
}

func sameBody(t *testing.T, what string, l Leg, want map[string]any) {
	t.Helper()
	got := object([]byte(legText(t, l)))
	if want["rid"] == nil {
		want = maps.Clone(want)
		want["rid"] = got["rid"]
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("%s:\n got %v\nwant %v", what, got, want)
	}
}

// TestVLLMLegsAreWhatRealEnginesTook rebuilds captured legs from their client's
// part, and decode legs from what prefill had answered.
func TestVLLMLegsAreWhatRealEnginesTook(t *testing.T) {
	for _, pair := range []string{"h1", "vi_chat_stream", "vi_tools_auto", "vi_tools_forced"} {
		t.Run(pair, func(t *testing.T) {
			p := readCapture[vllmCapture](t, "vllm", pair+"_prefill")
			d := readCapture[vllmCapture](t, "vllm", pair+"_decode")
			req, err := Parse(endpointFor(d.Request), d.Request) // its hand-off keys count as the client's
			if err != nil {
				t.Fatal(err)
			}
			prefill, err := VLLMNIXL{}.Prefill(req, Attempt{})
			if err != nil {
				t.Fatal(err)
			}
			want := object(p.Request)
			if object(d.Request)["stream"] == nil {
				delete(want, "stream")
			}
			if got := object([]byte(legText(t, prefill))); !reflect.DeepEqual(got, want) {
				t.Errorf("prefill leg:\n got %v\nwant %v", got, want)
			}
			decode, err := VLLMNIXL{}.Decode(req, Attempt{}, p.Response.JSON)
			if err != nil || !decode.HandedOff {
				t.Fatalf("Decode: handed off %v, error %v", decode.HandedOff, err)
			}
			if got, want := object([]byte(legText(t, decode))), object(d.Request); !reflect.DeepEqual(got, want) {
				t.Errorf("decode leg:\n got %v\nwant %v", got, want)
			}
		})
	}
}

// TestVLLMHandOffsThatKillOrHangDecodeAreRefused has the parameters that did so
// to a real decode server.
func TestVLLMHandOffsThatKillOrHangDecodeAreRefused(t *testing.T) {
	for _, name := range []string{"ii_block_ids_null_decode", "ii_missing_remote_request_id_decode"} {
		c := readCapture[vllmCapture](t, "vllm", name)
		params, err := json.Marshal(map[string]any{"kv_transfer_params": object(c.Request)["kv_transfer_params"]})
		if err != nil {
			t.Fatal(err)
		}
		req, err := Parse(Completions, c.Request)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := (VLLMNIXL{}).Decode(req, Attempt{}, params); !errors.Is(err, ErrBadHandOff) {
			t.Errorf("Decode after %s = %v, want ErrBadHandOff", name, err)
		}
	}
}

// TestCapturedAnswersAreJudgedRight checks every answer of a real engine that is
// one JSON value.
func TestCapturedAnswersAreJudgedRight(t *testing.T) {
	judged := 0
	judgeOne := func(t *testing.T, e Endpoint, status int, body []byte) {
		judged++
		if status != 200 {
			if got := ParseError(status, body); got.Status != status || got.Message == "" || got.Message[0] == '{' || got.Type == "" {
				t.Errorf("ParseError(%d, %s) = %+v", status, body, got)
			}
			return
		}
		if _, err := Verdict(e, body); err != nil && !bytes.Contains(body, []byte(`"abort"`)) {
			t.Errorf("Verdict(%s) = %v", body, err)
		}
		if _, err := Whole(e, body); err != nil {
			t.Errorf("Whole(%s) = %v", body, err)
		}
		for cut := range body {
			if _, err := Whole(e, body[:cut]); !errors.Is(err, ErrNotJSON) {
				t.Fatalf("Whole(%s) = %v, want ErrNotJSON", body[:cut], err)
			}
		}
	}
	for _, name := range captureNames(t, "sglang") {
		c := readCapture[sglangCapture](t, "sglang", name)
		for _, r := range c.Responses {
			if r.Status != 0 && !strings.HasPrefix(r.Body, "data:") {
				judgeOne(t, endpointFor(c.Request), r.Status, []byte(r.Body))
			}
		}
	}
	for _, name := range captureNames(t, "vllm") {
		c := readCapture[vllmCapture](t, "vllm", name)
		if c.Response.JSON != nil {
			judgeOne(t, endpointFor(c.Request), c.Response.Status, c.Response.JSON)
		}
	}
	if judged < 60 {
		t.Errorf("%d answers judged, want 60 or more", judged)
	}
}

// TestAbortedAnswers: decode that was told to abort answers 200. It is relayed,
// but no success; of prefill it is a failure.
func TestAbortedAnswers(t *testing.T) {
	c := readCapture[sglangCapture](t, "sglang", "abort_decode_mid")
	body := []byte(c.Responses[1].Body)
	if out, err := Whole(Chat, body); err != nil || !out.Aborted {
		t.Errorf("Whole = %+v, %v, want aborted", out, err)
	}
	_, err := Verdict(Chat, body)
	if failure, ok := errors.AsType[*EngineError](err); !ok || failure.Status != 500 {
		t.Errorf("Verdict = %v, want an EngineError of 500", failure)
	}
}

// TestCapturedStreamsAreClassifiedRight goes through every stream of a real
// engine, event by event. Repeated kinds are counted.
func TestCapturedStreamsAreClassifiedRight(t *testing.T) {
	want := map[string]string{
		"sglang/chat_stream/prefill":                 "quiet content finish quiet done",
		"sglang/chat_stream/decode":                  "quiet content*7 finish quiet done",
		"sglang/generate_stream/prefill":             "finish done",
		"sglang/generate_stream/decode":              "content*3 finish done",
		"sglang/generate_stream_batch/decode":        "content*3 finish content finish done",
		"sglang/generate_abort_stream/decode":        "content*25 finish(aborted) done",
		"sglang/decode_missing_stream/prefill":       "failure(500) done",
		"sglang/prefill_missing_stream/decode":       "failure(500) done",
		"sglang/prefill_died_chat_stream/decode":     "failure(500) quiet done",
		"sglang/prefill_died_generate_stream/decode": "failure(500) done",
		"vllm/iii_decode_prefill_dead_stream":        "failure(500) done",
		"vllm/prefill_streamed":                      "finish done",
		"vllm/vi_chat_stream_decode":                 "quiet content*7 finish quiet done",
		"vllm/vi_tools_auto_decode":                  "quiet content*31 finish quiet done",
		"vllm/vi_tools_forced_decode":                "quiet content finish quiet done",
	}
	check := func(key string, e Endpoint, stream string) {
		got := kinds(e, stream)
		if got != want[key] {
			t.Errorf("stream %s = %s, want %s", key, got, want[key])
		}
		delete(want, key)
	}
	for _, name := range captureNames(t, "sglang") {
		c := readCapture[sglangCapture](t, "sglang", name)
		for _, r := range c.Responses {
			if strings.HasPrefix(r.Body, "data:") {
				check("sglang/"+name+"/"+r.Leg, endpointFor(c.Request), r.Body)
			}
		}
	}
	for _, name := range captureNames(t, "vllm") {
		if c := readCapture[vllmCapture](t, "vllm", name); c.Response.Raw != "" {
			check("vllm/"+name, endpointFor(c.Request), c.Response.Raw)
		}
	}
	for key := range want {
		t.Errorf("stream %s is not there", key)
	}
}

// kinds spells out the kinds of a stream's events.
func kinds(e Endpoint, stream string) string {
	var out []string
	counts := map[int]int{}
	for buf := []byte(stream); len(buf) > 0; {
		n, _ := NextEvent(buf, 0)
		if n == 0 {
			out = append(out, fmt.Sprintf("unfinished(%q)", buf))
			break
		}
		s := describeEvent(Classify(e, buf[:n]))
		if len(out) == 0 || out[len(out)-1] != s {
			out = append(out, s)
		}
		counts[len(out)-1]++
		buf = buf[n:]
	}
	for i, n := range counts {
		if n > 1 {
			out[i] += fmt.Sprintf("*%d", n)
		}
	}
	return strings.Join(out, " ")
}

func describeEvent(ev Event) string {
	s := [...]string{"comment", "quiet", "content", "finish", "failure", "done"}[ev.Kind]
	switch {
	case ev.Err != nil:
		s += fmt.Sprintf("(%d)", ev.Err.Status)
	case ev.Aborted:
		s += "(aborted)"
	}
	return s
}

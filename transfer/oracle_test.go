package transfer

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"reflect"
	"strings"
	"testing"
	"unicode/utf8"
)

// encoding/json is the oracle here: what it sees in a leg must be what it sees
// in the client's body, but for our edits.

// pair is one member of an object, in its place.
type pair struct {
	name  string
	value json.RawMessage
}

// memberList decodes the members of an object in order, duplicates and all.
func memberList(t testing.TB, body []byte) (list []pair) {
	t.Helper()
	d := json.NewDecoder(bytes.NewReader(body))
	if _, err := d.Token(); err != nil {
		t.Fatalf("%v in %q", err, body)
	}
	for d.More() {
		name, err := d.Token()
		if err != nil {
			t.Fatalf("%v in %q", err, body)
		}
		p := pair{name: name.(string)}
		if err := d.Decode(&p.value); err != nil {
			t.Fatalf("%v in %q", err, body)
		}
		list = append(list, p)
	}
	return list
}

// kept are the client's members that are no hand-off keys, in order, as spelt.
func kept(t testing.TB, body []byte) (list []pair) {
	t.Helper()
	for _, p := range memberList(t, body) {
		if handoffKey([]byte(p.name)) {
			continue
		}
		if p.name == "vllm_xargs" && p.value[0] == '{' {
			inner := []string{}
			for _, x := range memberList(t, p.value) {
				if !handoffKey([]byte(x.name)) {
					inner = append(inner, fmt.Sprintf("%q:%s", x.name, x.value))
				}
			}
			p.value = []byte("{" + strings.Join(inner, ",") + "}")
		}
		list = append(list, p)
	}
	return list
}

// expect returns the members of a leg as the oracle makes them of the client's.
func expect(t testing.TB, d Dialect, req *Request, prefill bool) (list []pair) {
	t.Helper()
	vllm := d.Traits().Order == PrefillFirst
	limited := false
	for _, p := range kept(t, req.body) {
		openAI := req.endpoint != Generate
		switch {
		case prefill && p.name == "stream_options":
			continue
		case prefill && p.name == "stream" && string(p.value) == "true":
			p.value = []byte("false")
		case prefill && vllm && openAI && (p.name == "min_tokens" || p.name == "min_completion_tokens"):
			continue
		case prefill && vllm && openAI && (p.name == "max_tokens" || p.name == "max_completion_tokens"):
			limited = limited || p.name == "max_tokens"
			p.value = []byte("1")
		case !prefill && vllm && p.name == "echo" && string(p.value) == "true",
			!prefill && vllm && p.name == "prompt_logprobs" && string(p.value) != "null":
			continue
		}
		list = append(list, p)
	}
	if prefill && vllm && !limited {
		list = append(list, pair{"max_tokens", []byte("1")})
	}
	return list
}

// ours are the hand-off keys that a leg of a dialect carries, once each.
func ours(d Dialect) map[string]bool {
	if d.Traits().Order == PrefillFirst {
		return map[string]bool{"kv_transfer_params": true}
	}
	return map[string]bool{"bootstrap_host": true, "bootstrap_port": true, "bootstrap_room": true, "rid": true}
}

const goodAnswer = `{"kv_transfer_params":{"do_remote_prefill":true,"remote_block_ids":[[1]],"remote_engine_id":"e",` +
	`"remote_request_id":"r","remote_host":"h","remote_port":1}}`

// checkLegs compares both legs of a request with what the oracle expects.
func checkLegs(t testing.TB, d Dialect, req *Request) {
	t.Helper()
	a := testAttempt(req)
	prefill, err := d.Prefill(req, a)
	if err != nil {
		t.Fatal(err)
	}
	decode, err := d.Decode(req, a, []byte(goodAnswer))
	if err != nil {
		t.Fatal(err)
	}
	for i, leg := range []Leg{prefill, decode} {
		body := bytes.Join(leg.Body, nil)
		if !json.Valid(body) || int64(len(body)) != leg.Length {
			t.Fatalf("leg %d of %q is %q of length %d", i, req.body, body, leg.Length)
		}
		want, mine := expect(t, d, req, i == 0), ours(d)
		var got []pair
		for _, p := range memberList(t, body) {
			if mine[p.name] {
				mine[p.name] = false
				continue
			}
			got = append(got, p)
		}
		for name, missing := range mine {
			if missing {
				t.Fatalf("leg %d of %q has no %s: %q", i, req.body, name, body)
			}
		}
		if !samePairs(got, want) {
			t.Fatalf("leg %d of %q:\n got %q\nwant %q", i, req.body, got, want)
		}
	}
}

// samePairs compares members, the values of vllm_xargs without their spelling.
func samePairs(a, b []pair) bool {
	if len(a) != len(b) {
		return false
	}
	for i := range a {
		same := bytes.Equal(a[i].value, b[i].value)
		if a[i].name == "vllm_xargs" {
			same = reflect.DeepEqual(object(a[i].value), object(b[i].value))
		}
		if a[i].name != b[i].name || !same {
			return false
		}
	}
	return true
}

// A writer makes random bodies.
type writer struct {
	r *rand.Rand
	b strings.Builder
}

func (w *writer) space() {
	if w.r.IntN(3) == 0 {
		w.b.WriteString([]string{" ", "\n", "\t ", "\r\n"}[w.r.IntN(4)])
	}
}

// name writes a key, with some of its letters as escapes.
func (w *writer) name(s string) {
	w.b.WriteByte('"')
	for _, c := range s {
		if w.r.IntN(12) == 0 {
			fmt.Fprintf(&w.b, `\u%04x`, c)
		} else {
			w.b.WriteRune(c)
		}
	}
	w.b.WriteByte('"')
}

func (w *writer) any(depth int) {
	scalars := []string{`null`, `true`, `0`, `-1.50`, `1e400`, `9007199254740993`, `"a"`, `"\ud83d\n\"}"`, `"é,]"`, `""`}
	switch n := w.r.IntN(8); {
	case n == 0 && depth < 4:
		w.object(depth+1, nil)
	case n == 1 && depth < 4:
		w.b.WriteByte('[')
		for i := range w.r.IntN(4) {
			if i > 0 {
				w.b.WriteByte(',')
			}
			w.space()
			w.any(depth + 1)
			w.space()
		}
		w.b.WriteByte(']')
	default:
		w.b.WriteString(scalars[w.r.IntN(len(scalars))])
	}
}

// object writes an object of random members and of the given ones.
func (w *writer) object(depth int, own map[string]string) {
	names := []string{"rid", "bootstrap_room", "kv_transfer_params", "x", "y", "x", "data_parallel_rank", "ridx", "Rid"}
	w.b.WriteByte('{')
	w.space()
	for i := range w.r.IntN(7) {
		if i > 0 {
			w.b.WriteByte(',')
		}
		w.space()
		name := names[w.r.IntN(len(names))]
		value := ""
		for k, v := range own { // any of them, once
			if w.r.IntN(2) == 0 {
				name, value = k, v
				delete(own, k)
			}
			break
		}
		w.name(name)
		w.space()
		w.b.WriteByte(':')
		w.space()
		if value != "" {
			w.b.WriteString(value)
		} else {
			w.any(depth)
		}
		w.space()
	}
	w.b.WriteByte('}')
}

func TestLegsAreTheClientsBodyButForOurEdits(t *testing.T) {
	own := map[string]string{
		"stream": "true", "stream_options": `{"include_usage":true}`, "model": `"m"`, "max_tokens": "5", "min_tokens": "3",
		"max_completion_tokens": "null", "messages": `[{"role":"user","content":"q"}]`, "n": "1", "tools": "[]",
		"vllm_xargs": ` { "a" : 1 , "kv_transfer_params":"x", "rid" : 1 }`,
	}
	w := writer{r: rand.New(rand.NewPCG(1, 2))}
	dropped := 0
	for range 4_000 {
		w.b.Reset()
		w.object(0, maps.Clone(own))
		req := parse(t, Chat, w.b.String())
		dropped += req.Dropped()
		for _, d := range []Dialect{SGLang{}, VLLMNIXL{}} {
			checkLegs(t, d, req)
		}
	}
	if dropped < 2_000 {
		t.Errorf("%d hand-off keys were dropped in all, the bodies are too plain", dropped)
	}
}

// oracleTakes tells whether a body is one JSON object in UTF-8, for the oracle.
func oracleTakes(body []byte) bool {
	trimmed := bytes.TrimLeft(body, " \t\r\n")
	return json.Valid(body) && utf8.Valid(body) && len(trimmed) > 0 && trimmed[0] == '{'
}

package transfer

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"reflect"
	"strings"
	"testing"
)

func joined(r *Request) string { return string(bytes.Join(r.Prompt(nil), nil)) }

func TestPrompt(t *testing.T) {
	tests := []struct {
		name string
		e    Endpoint
		body string
		want string
	}{
		{"tools come first", Chat, `{"messages":[{"role":"user","content":"a"}],"model":"m","tools":[{"a": 2}]}`, `[{"a": 2}]"user""a"`},
		{"messages stay in their order", Chat, `{"messages":[{"role":"user","content":"a"},{"role":"system","content":"b"}]}`, `"user""a""system""b"`},
		{"whitespace and null do not count", Chat, "{\"messages\" : [ {\"role\" : \"user\" ,\n\"content\": \"a\", \"name\": null}\t] , \"tools\" : null}", `"user""a"`},
		{"a text as one part", Chat, `{"messages":[{"role":"user","content":[{"type":"text","text":"a"}]}]}`, `"user""text""a"`},
		{"calls of tools", Chat, `{"messages":[{"role":"assistant","content":null,"tool_calls":[{"id":"c","index":0,"function":{"name":"f","arguments":"{\"a\":[1,\\\"]}"}}]}]}`, `"assistant""c"0"f""{\"a\":[1,\\\"]}"`},
		{"a cached part", Chat, `{"messages":[{"content":[{"text":"a","cache_control" : {"type":"x","n":[1,"]"]}}],"role":"user"}]}`, `"a""user"`},
		{"an image elsewhere", Chat, `{"messages":[{"content":[{"type":"image_url","image_url":{"url":"http://h/a.png"}}]}]}`, `"image_url""http://h/a.png"`},
		{"escapes stay", Chat, `{"messages":[{"content":"\u00e4\\"},{"content":"ä\\\""}]}`, `"\u00e4\\""ä\\\""`},
		{"SGLang's token ids are all", Chat, `{"messages":[{"content":"a"}],"tools":[1],"input_ids":[1,2]}`, `1,2`},
		{"no messages", Chat, `{}`, ``},
		{"a text", Completions, `{"prompt":"a b"}`, `a b`},
		{"token ids", Completions, `{"prompt":[ 1, 2 ]}`, `1, 2`},
		{"a batch of texts", Completions, `{"prompt":["a", "b\"]"]}`, `ab\"]`},
		{"a batch of token ids", Completions, `{"prompt":[[1,2], [ 3 ]]}`, `1,23`},
		{"an empty list", Completions, `{"prompt":[ ]}`, ``},
		{"embeddings", Completions, `{"prompt_embeds":"AAA"}`, `AAA`},
		{"/generate's text", Generate, `{"text":"a","input_ids":null}`, `a`},
		{"/generate's token ids", Generate, `{"input_ids":[1,2],"text":null}`, `1,2`},
		{"/generate's embeddings", Generate, `{"input_embeds":[[0.5,1],[2,3]]}`, `0.5,12,3`},
		{"a batch of embeddings", Generate, `{"input_embeds":[[[0.5,1],[2,3]], [[4]]]}`, `[0.5,1],[2,3][4]`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			r := parse(t, tt.e, tt.body)

			if got := joined(r); got != tt.want {
				t.Errorf("Prompt = %s, want %s", got, tt.want)
			}
			if got := Length(r.Prompt(nil)); got != len(tt.want) {
				t.Errorf("Length = %d, want %d", got, len(tt.want))
			}
		})
	}
}

// checkPrompt compares the pieces of messages with what encoding/json sees.
func checkPrompt(t *testing.T, r *Request) {
	t.Helper()
	got := r.Prompt(nil)
	if r.endpoint != Chat || r.value(keyInputIDs) != nil || r.value(keyMessages) == nil {
		return
	}
	if r.value(keyTools) != nil {
		got = got[1:]
	}
	d := json.NewDecoder(bytes.NewReader(r.value(keyMessages)))
	d.UseNumber()
	for _, want := range leaves(t, d) {
		if s, ok := want.(string); ok && len(s) >= condensedFrom/6 {
			return // may be condensed
		}
		if len(got) == 0 {
			t.Fatalf("%v is missing in the pieces of %s", want, r.body)
		}
		var value any
		one := json.NewDecoder(bytes.NewReader(got[0]))
		one.UseNumber()
		if err := one.Decode(&value); err != nil || !reflect.DeepEqual(value, want) {
			t.Fatalf("a piece of %s is %s, want %v", r.body, got[0], want)
		}
		got = got[1:]
	}
	if len(got) != 0 {
		t.Fatalf("%d pieces too many in %s: %q", len(got), r.body, got)
	}
}

// leaves returns the scalars of a value in order, but null and what is under
// cache_control.
func leaves(t *testing.T, d *json.Decoder) (list []any) {
	t.Helper()
	token, err := d.Token()
	if err != nil {
		t.Fatal(err)
	}
	switch delim, _ := token.(json.Delim); delim {
	case '[':
		for d.More() {
			list = append(list, leaves(t, d)...)
		}
		_, _ = d.Token()
	case '{':
		for d.More() {
			// The key is compared as it is spelt, which only the offset tells.
			name, _ := d.Token()
			if inner := leaves(t, d); name != "cache_control" {
				list = append(list, inner...)
			}
		}
		_, _ = d.Token()
	default:
		if token != nil {
			list = append(list, token)
		}
	}
	return list
}

// TestImagesAreCondensed: by their bytes an image would be the longest part of
// any prompt, and to an engine it is a thousand tokens.
func TestImagesAreCondensed(t *testing.T) {
	body := func(image string) string {
		return `{"messages":[{"role":"user","content":[{"type":"image_url","image_url":{"url":"data:image/png;base64,` + image + `"}},{"type":"input_audio","input_audio":{"data":"` + image + `","format":"wav"}}]}]}`
	}
	image := strings.Repeat("iVBORw0KGgo", 10_000)
	first := joined(parse(t, Chat, body(image)))
	if len(first) < 2*1000 || len(first) > 2*4000 {
		t.Errorf("an image and a sound of %d bytes each count as %d", len(image), len(first))
	}
	if joined(parse(t, Chat, body(image))) != first {
		t.Error("the same image is another one")
	}
	if joined(parse(t, Chat, body(image[:50_000]+"x"+image[50_001:]))) == first {
		t.Error("another image is the same")
	}
	if n := len(joined(parse(t, Chat, `{"messages":[{"content":"`+image+`"}]}`))); n != len(image)+2 {
		t.Errorf("a text of %d bytes counts as %d", len(image), n)
	}
}

// TestTurnsShareTheirBeginning: what a conversation's next request is made from
// begins with all of the one before, however both are spelt.
func TestTurnsShareTheirBeginning(t *testing.T) {
	dice := rand.New(rand.NewPCG(1, 2))
	for range 300 {
		messages := conversation(dice, 2+dice.IntN(12))
		cut := 1 + dice.IntN(len(messages)-1)
		first := spell(dice, messages[:cut])
		second := spell(dice, messages)
		a, b := joined(parse(t, Chat, first)), joined(parse(t, Chat, second))
		if !strings.HasPrefix(b, a) || len(a) == 0 {
			t.Fatalf("%s\nis not the beginning of\n%s", first, second)
		}
	}
}

func TestLongerPromptsBeginAlike(t *testing.T) {
	for _, pair := range [][2]string{
		{`"a"`, `"ab"`}, {`[1,2]`, `[1,2,3]`}, {`[1, 2]`, `[1, 2, 3]`}, {`["a"]`, `"ab"`}, {`["a"]`, `["a","b"]`}, {`[[1,2]]`, `[1,2,3]`},
	} {
		a, b := joined(parse(t, Completions, `{"prompt":`+pair[0]+`}`)), joined(parse(t, Completions, `{"prompt":`+pair[1]+`}`))
		if !strings.HasPrefix(b, a) {
			t.Errorf("%s is %q, which is not the beginning of %s, %q", pair[0], a, pair[1], b)
		}
	}
}

// conversation returns messages with all that may be in them.
func conversation(dice *rand.Rand, n int) (messages []map[string]any) {
	text := func() string { return strings.Repeat(`say "it"\`+"\nä", dice.IntN(40)) }
	messages = append(messages, map[string]any{"role": "system", "content": text()})
	for len(messages) < n {
		var m map[string]any
		switch dice.IntN(4) {
		case 0:
			m = map[string]any{"role": "user", "content": []any{
				map[string]any{"type": "text", "text": text()},
				map[string]any{"type": "image_url", "image_url": map[string]any{"url": "data:image/png;base64," + strings.Repeat("A", dice.IntN(4000))}},
			}}
		case 1:
			m = map[string]any{"role": "assistant", "content": nil, "tool_calls": []any{
				map[string]any{"id": fmt.Sprint(dice.IntN(10)), "function": map[string]any{"name": "f", "arguments": text()}},
			}}
		case 2:
			m = map[string]any{"role": "tool", "tool_call_id": "1", "content": text(), "n": dice.IntN(100), "ok": true}
		default:
			m = map[string]any{"role": "user", "content": text()}
		}
		messages = append(messages, m)
	}
	return messages
}

// spell writes a chat with or without whitespace.
func spell(dice *rand.Rand, messages []map[string]any) string {
	var list []byte
	if dice.IntN(2) == 0 {
		list, _ = json.Marshal(messages)
	} else {
		list, _ = json.MarshalIndent(messages, "\t", " ")
	}
	return `{"model":"m","messages":` + string(list) + `,"stream":true}`
}

// TestSeedKeepsEqualPromptsApart: what is not in the prompt but changes its KV
// blocks (BUG-031: an image beside the same text).
func TestSeedKeepsEqualPromptsApart(t *testing.T) {
	seed := func(e Endpoint, body string) string {
		return string(bytes.Join(parse(t, e, body).Seed(nil), []byte(" ")))
	}
	none := map[Endpoint]string{}
	for _, e := range []Endpoint{Chat, Completions, Generate} {
		none[e] = seed(e, `{}`)
		if got := len(parse(t, e, `{}`).Seed(nil)); got != SeedPieces {
			t.Errorf("Seed has %d pieces, want %d", got, SeedPieces)
		}
	}
	seen := map[string]string{}
	for _, tt := range []struct {
		e   Endpoint
		key string
	}{
		{Completions, "cache_salt"},
		{Completions, "extra_key"},
		{Completions, "lora_path"},
		{Chat, "chat_template"},
		{Chat, "chat_template_kwargs"},
		{Chat, "documents"},
		{Chat, "reasoning_effort"},
		{Chat, "mm_processor_kwargs"},
		{Generate, "image_data"},
		{Generate, "video_data"},
		{Generate, "audio_data"},
	} {
		got := seed(tt.e, `{"`+tt.key+`":"s"}`)
		if got == none[tt.e] || seen[got] != "" {
			t.Errorf("Seed of %s is that of %q or of nothing at all", tt.key, seen[got])
		}
		seen[got] = tt.key
		if got := seed(tt.e, "{\""+tt.key+"\" :\n\"s\" }"); seen[got] != tt.key {
			t.Errorf("whitespace around %s makes another Seed", tt.key)
		}
		if got := seed(tt.e, `{"`+tt.key+`":null}`); got != none[tt.e] {
			t.Errorf("%s: null is not as nothing", tt.key)
		}
	}
	if seed(Generate, `{"text":"a","image_data":"x"}`) == seed(Generate, `{"text":"a","image_data":"y"}`) {
		t.Error("Seed does not tell two images apart")
	}
}

func BenchmarkPrompt(b *testing.B) {
	// An agent's: results of tools, which are JSON in strings.
	turn := `{"role":"tool","tool_call_id":"call_1","content":"` + strings.Repeat(`{\"city\": \"Paris\", \"n\": 17},\n`, 15) + `"}`
	agent := benchBody{"agent=32KB", Chat, []byte(`{"messages":[` + strings.Repeat(turn+",", 55) + turn + `]}`)}
	for _, c := range append(benchBodies(), agent) {
		b.Run(c.name, func(b *testing.B) {
			r := parse(b, c.e, string(c.body))
			var pieces [][]byte
			b.SetBytes(int64(len(c.body)))
			b.ReportAllocs()
			for b.Loop() {
				pieces = r.Prompt(pieces[:0])
			}
		})
	}
}

// TestPiecesAreBounded: many short values take no more memory than the body does.
func TestPiecesAreBounded(t *testing.T) {
	ones := strings.Repeat("1,", 10*maxPieces)
	first, second := parse(t, Chat, `{"messages":[`+ones+`{"a":"b"}]}`), parse(t, Chat, `{"messages":[`+ones+`{"a":"b"},2]}`)
	if n := len(first.Prompt(nil)); n > maxPieces+1 {
		t.Errorf("there are %d pieces", n)
	}
	if !strings.HasPrefix(joined(second), joined(first)) {
		t.Error("a longer list does not begin with the shorter one")
	}
	batch := parse(t, Generate, `{"input_embeds":[`+strings.Repeat("[1],", 2*maxPieces)+`[1]]}`)
	if n := len(batch.Prompt(nil)); n > maxPieces+1 {
		t.Errorf("there are %d pieces of a batch", n)
	}
}

// TestStringEnd: quotes and backslashes at all places of a window.
func TestStringEnd(t *testing.T) {
	dice := rand.New(rand.NewPCG(3, 4))
	for range 20_000 {
		var s []byte
		for range dice.IntN(300) {
			s = append(s, `aaaaaaa"\`[dice.IntN(9)])
		}
		v, _ := json.Marshal(string(s))
		if got := stringEnd(append(v, `,"b","c"`...), 0); got != len(v) {
			t.Fatalf("stringEnd(%s) = %d, want %d", v, got, len(v))
		}
	}
}

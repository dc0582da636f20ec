package transfer

import (
	"fmt"
	"runtime"
	"strings"
	"testing"
)

// textBody is a chat of about n bytes of prose with some escapes.
func textBody(n int) []byte {
	line := `He said \"no\" and went on.\nThe next line is plain prose without anything to escape, as most prompts are, and it goes on for a while. `
	return []byte(`{"model":"m","messages":[{"role":"user","content":"` + strings.Repeat(line, n/len(line)) + `"}],"max_tokens":100,"stream":true}`)
}

// tokenBody is a completion whose prompt is about n bytes of token ids.
func tokenBody(n int, comma string) []byte {
	var b strings.Builder
	b.WriteString(`{"model":"m","prompt":[1`)
	for i := 0; b.Len() < n; i++ {
		fmt.Fprintf(&b, "%s%d", comma, i*7919%151936)
	}
	b.WriteString(`],"max_tokens":100}`)
	return []byte(b.String())
}

// A benchBody is a body by the name of its benchmark.
type benchBody struct {
	name string
	e    Endpoint
	body []byte
}

func benchBodies() []benchBody {
	texts := `{"prompt":["` + strings.Repeat(strings.Repeat("word ", 200)+`","`, 1<<10) + `"]}`
	message := func(content string, times int) []byte {
		return []byte(`{"messages":[{"role":"user","content":"` + strings.Repeat(content, times) + `"}]}`)
	}
	line := strings.Repeat("word ", 20)[:98]
	return []benchBody{
		{"ascii=1MB", Chat, message("word ", 1<<20/5)},
		{"lines=1MB", Chat, message(line+`\n`, 1<<20/100)},
		{"base64=1MB", Chat, message("iVBORw0KGgoAAAANSUhEUgAABkAAAAJ/", 1<<20/32)},
		{"text=1MB", Chat, textBody(1 << 20)},
		{"chinese=1MB", Chat, message("你好，世界。", 1<<20/18)},
		{"tokens=1MB", Completions, tokenBody(1<<20, ",")},
		{"spaced-tokens=1MB", Completions, tokenBody(1<<20, ", ")},
		{"batch=1MB", Completions, []byte(texts)},
		{"chat=32KB", Chat, textBody(32 << 10)},
		{"chat=1KB", Chat, textBody(1 << 10)},
	}
}

func BenchmarkParse(b *testing.B) {
	for _, c := range benchBodies() {
		b.Run(c.name, func(b *testing.B) {
			b.SetBytes(int64(len(c.body)))
			b.ReportAllocs()
			for b.Loop() {
				if _, err := Parse(c.e, c.body); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

func BenchmarkLegs(b *testing.B) {
	for _, d := range []Dialect{SGLang{}, VLLMNIXL{}} {
		for _, size := range []int{1 << 10, 1 << 20} {
			b.Run(fmt.Sprintf("%s/%dKB", d.Traits().Name, size>>10), func(b *testing.B) {
				req := parse(b, Chat, string(textBody(size)))
				a := testAttempt(req)
				b.ReportAllocs()
				answer := []byte(goodAnswer)
				for b.Loop() {
					if _, err := d.Prefill(req, a); err != nil {
						b.Fatal(err)
					}
					if _, err := d.Decode(req, a, answer); err != nil {
						b.Fatal(err)
					}
				}
			})
		}
	}
}

// BenchmarkAttempt is all that one request costs before its legs are sent.
func BenchmarkAttempt(b *testing.B) {
	body, answer := textBody(1<<10), []byte(goodAnswer)
	for _, d := range []Dialect{SGLang{}, VLLMNIXL{}} {
		b.Run(d.Traits().Name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				req, err := Parse(Chat, body)
				if err != nil {
					b.Fatal(err)
				}
				a := NewAttempt(req)
				a.BootstrapHost, a.BootstrapPort = "10.0.0.1", 8998
				if _, err := d.Prefill(req, a); err != nil {
					b.Fatal(err)
				}
				if _, err := d.Decode(req, a, answer); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

func BenchmarkNewAttempt(b *testing.B) {
	req := parse(b, Chat, `{}`)
	b.ReportAllocs()
	for b.Loop() {
		NewAttempt(req)
	}
}

const benchChunk = `data: {"id":"chatcmpl-865b7b1ea18934b4","object":"chat.completion.chunk","created":1796037519,"model":"smollm2","choices":[{"index":0,"delta":{"content":" capital"},"logprobs":null,"finish_reason":null,"token_ids":null}]}` + "\n\n"

func BenchmarkStream(b *testing.B) {
	stream := []byte(strings.Repeat(benchChunk, 256))
	for name, what := range map[string]func(event []byte){
		"split":              func([]byte) {},
		"split-and-classify": func(event []byte) { Classify(Chat, event) },
	} {
		b.Run(name, func(b *testing.B) {
			b.SetBytes(int64(len(stream)))
			b.ReportAllocs()
			for b.Loop() {
				for buf := stream; len(buf) > 0; {
					n, _ := NextEvent(buf, 0)
					what(buf[:n])
					buf = buf[n:]
				}
			}
		})
	}
}

func BenchmarkVerdict(b *testing.B) {
	body := []byte(`{"id":"x","choices":[{"index":0,"message":{"role":"assistant","content":"` + strings.Repeat("word ", 800) + `"},"logprobs":null,"finish_reason":"stop"}],"usage":{"prompt_tokens":37,"total_tokens":45,"completion_tokens":8,"prompt_tokens_details":null}}`)
	b.SetBytes(int64(len(body)))
	b.ReportAllocs()
	for b.Loop() {
		if _, err := Verdict(Chat, body); err != nil {
			b.Fatal(err)
		}
	}
}

// TestAllocations: the scan takes one for the Request whatever the body, what
// looks at events and answers none, and a leg does not copy the prompt.
func TestAllocations(t *testing.T) {
	check := func(name string, want float64, f func()) {
		t.Helper()
		if got := testing.AllocsPerRun(10, f); got > want {
			t.Errorf("%s: %v allocations, want at most %v", name, got, want)
		}
	}
	for _, c := range benchBodies() {
		check("Parse "+c.name, 1, func() { _, _ = Parse(c.e, c.body) })
	}
	chunk, done := []byte(benchChunk), []byte("data: [DONE]\n\n")
	check("NextEvent", 0, func() { NextEvent(chunk, 0) })
	check("Classify", 0, func() { Classify(Chat, chunk); Classify(Chat, done); Classify(Generate, chunk) })
	answer := []byte(goodAnswer)
	check("Verdict", 0, func() { _, _ = Verdict(Chat, answer) })

	req := parse(t, Chat, string(textBody(1<<20)))
	a := testAttempt(req)
	for _, d := range []Dialect{SGLang{}, VLLMNIXL{}} {
		legs := func() {
			_, _ = d.Prefill(req, a)
			_, _ = d.Decode(req, a, answer)
		}
		check("Traits", 0, func() { d.Traits() })
		check("legs of "+d.Traits().Name, 6, legs)
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		legs()
		runtime.ReadMemStats(&after)
		if n := after.TotalAlloc - before.TotalAlloc; n > 64<<10 {
			t.Errorf("legs of %s: %d bytes for a body of 1 MB", d.Traits().Name, n)
		}
	}
}

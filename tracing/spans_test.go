package tracing

import (
	"encoding/hex"
	"flag"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"pdrouter/record"

	collector "go.opentelemetry.io/proto/slim/otlp/collector/trace/v1"
	common "go.opentelemetry.io/proto/slim/otlp/common/v1"
	trace "go.opentelemetry.io/proto/slim/otlp/trace/v1"
	"google.golang.org/protobuf/proto"
)

var update = flag.Bool("update", false, "write docs/tracing.md anew")

func ms(n int) time.Time { return time.Unix(1_000_000_000, 0).Add(time.Duration(n) * time.Millisecond) }

// retried returns the record of a stream over vLLM whose first decode engine
// failed.
func retried() *record.View {
	b := record.NewBook(1)
	r := b.Begin(ms(0), "req-1")
	r.Is("chat")
	r.Asks(ms(1), record.Asked{
		Model: "qwen3", Endpoint: "chat", Dialect: "vllm-nixl", Class: "normal", Streaming: true, MaxTokens: 256, BodyBytes: 9000, PromptBytes: 8000,
	})
	r.Leased(record.Attempt{
		Prefill: "prefill-0", PrefillURL: "http://secret-host:1", Decode: "decode-0", DecodeURL: "http://secret-host:2", Room: 4711, Reserved: 2400, Leased: ms(41),
		Choice: record.Choice{Reason: "cost", Waited: 40 * time.Millisecond, At: ms(40), Candidates: []record.Candidate{
			{Worker: "prefill-0", Role: "prefill", Chosen: true, Blocks: 12, Work: 80 * time.Millisecond, Cost: 0.08},
			{Worker: "prefill-1", Role: "prefill", Wait: 30 * time.Millisecond, Work: 200 * time.Millisecond, Cost: 0.23},
		}},
	})
	r.Lacks("decode")
	r.Prefilled(ms(130))
	r.Sent(ms(131))
	r.Over(ms(140), "decode", "decode_upstream_error", "secret reason")
	r.Leased(record.Attempt{
		Prefill: "prefill-0", Decode: "decode-1", Reserved: 2400, Leased: ms(191), Choice: record.Choice{Reason: "cost", Waited: time.Millisecond, At: ms(190)},
	})
	r.Prefilled(ms(210))
	r.Sent(ms(211))
	for i := range 30 {
		r.Token(ms(235 + 20*i))
	}
	r.Counts(record.Counted{PromptTokens: 2000, CachedTokens: 1536, AnswerTokens: 30, Predicted: 1500})
	r.Over(ms(820), "", "", "")
	var v record.View
	b.End(r, &record.End{At: ms(821), Status: 200, Bytes: 6000, Copy: &v})
	return &v
}

// spansOf returns the spans of a record, as a collector reads them, with what
// they are said to be of.
func spansOf(t testing.TB, tr *Trace, v *record.View) (*trace.ResourceSpans, []*trace.Span) {
	t.Helper()
	tracer := newTracer(t, nil)
	tracer.add(&Finished{View: *v, trace: *tr})
	var req collector.ExportTraceServiceRequest
	if err := proto.Unmarshal(tracer.batch.end(), &req); err != nil {
		t.Fatal(err)
	}
	return req.ResourceSpans[0], req.ResourceSpans[0].ScopeSpans[0].Spans
}

func sampledTrace(t testing.TB, parent string) *Trace {
	tr := newTracer(t, nil).Begin(parent, "vendor=1")
	return &tr
}

func attributes(kvs []*common.KeyValue) map[string]any {
	out := map[string]any{}
	for _, kv := range kvs {
		switch v := kv.Value.Value.(type) {
		case *common.AnyValue_StringValue:
			out[kv.Key] = v.StringValue
		case *common.AnyValue_IntValue:
			out[kv.Key] = v.IntValue
		case *common.AnyValue_BoolValue:
			out[kv.Key] = v.BoolValue
		case *common.AnyValue_DoubleValue:
			out[kv.Key] = v.DoubleValue
		}
	}
	return out
}

func named(spans []*trace.Span, name string) []*trace.Span {
	return slices.DeleteFunc(slices.Clone(spans), func(s *trace.Span) bool { return s.Name != name })
}

func TestSpansOfARequestThatWasTriedAgain(t *testing.T) {
	tr := sampledTrace(t, ofClient)
	res, spans := spansOf(t, tr, retried())
	of := attributes(res.Resource.Attributes)
	if of["service.name"] != "pdrouter" || of["service.version"] != "v1" || of["host.name"] != "h" || of["service.instance.id"] == "" {
		t.Errorf("resource %v", of)
	}
	byID := map[string]*trace.Span{}
	for _, s := range spans {
		byID[string(s.SpanId)] = s
		if hex.EncodeToString(s.TraceId) != ofClient[3:35] || s.TraceState != "vendor=1" {
			t.Errorf("%s is of trace %x, state %q", s.Name, s.TraceId, s.TraceState)
		}
	}
	root := spans[0]
	if hex.EncodeToString(root.ParentSpanId) != ofClient[36:52] || root.Flags != 0x301 || root.Kind != trace.Span_SPAN_KIND_SERVER {
		t.Errorf("root %v", root)
	}
	for _, s := range spans[1:] {
		parent := byID[string(s.ParentSpanId)]
		if parent == nil || s.StartTimeUnixNano < parent.StartTimeUnixNano || s.EndTimeUnixNano > parent.EndTimeUnixNano || s.EndTimeUnixNano < s.StartTimeUnixNano {
			t.Errorf("%s is not within its parent %v", s.Name, parent)
		}
	}
	for attempt, leg := range map[int]string{1: "prefill", 2: "decode"} {
		which := Prefill
		if leg == "decode" {
			which = Decode
		}
		told, _ := tr.Leg(attempt, which)
		if got := hex.EncodeToString(named(spans, leg)[attempt-1].SpanId); got != told[36:52] {
			t.Errorf("%s of attempt %d is span %s, its engine was told %s", leg, attempt, got, told)
		}
	}
	attempts := named(spans, "attempt")
	if attempts[0].Status.GetCode() != trace.Status_STATUS_CODE_ERROR || attempts[1].Status != nil || string(attempts[1].Links[0].SpanId) != string(attempts[0].SpanId) {
		t.Errorf("attempts %v", attempts)
	}
	if a := attributes(named(spans, "decode")[0].Attributes); a["error.type"] != "decode_upstream_error" || a["pdrouter.worker.id"] != "decode-0" {
		t.Errorf("the leg that failed: %v", a)
	}
	if len(root.Events) != 1 || root.Events[0].Name != "retry" || root.Events[0].TimeUnixNano != uint64(ms(140).UnixNano()) {
		t.Errorf("events %v", root.Events)
	}
	want := map[string]any{
		"http.request.method": "POST", "http.route": "/v1/chat/completions", "http.response.status_code": int64(200), "url.scheme": "http",
		"gen_ai.operation.name": "chat", "gen_ai.request.model": "qwen3", "gen_ai.request.max_tokens": int64(256), "gen_ai.request.stream": true,
		"gen_ai.response.time_to_first_chunk": 0.235, "gen_ai.usage.input_tokens": int64(2000), "gen_ai.usage.output_tokens": int64(30),
		"gen_ai.usage.cache_read.input_tokens": int64(1536), "pdrouter.attempts": int64(2), "pdrouter.request.id": "req-1",
	}
	for key, v := range want {
		if got := attributes(root.Attributes)[key]; got != v {
			t.Errorf("%s is %v, want %v", key, got, v)
		}
	}
}

// TestNobodyCanJoinAHandOff: what is sent names no room and no address, and
// repeats nothing that an engine said.
func TestNobodyCanJoinAHandOff(t *testing.T) {
	tracer := newTracer(t, nil)
	tracer.add(&Finished{View: *retried(), trace: *sampledTrace(t, "")})
	for _, secret := range []string{"secret", "4711", "http://"} {
		if strings.Contains(string(tracer.batch.end()), secret) {
			t.Errorf("%q is in what is sent", secret)
		}
	}
}

func TestHowRequestsEnd(t *testing.T) {
	const unset, bad = trace.Status_STATUS_CODE_UNSET, trace.Status_STATUS_CODE_ERROR
	leased := record.Attempt{Prefill: "prefill-0", Decode: "decode-0", Leased: ms(5), Choice: record.Choice{Waited: 3 * time.Millisecond, At: ms(4)}}
	for _, tt := range []struct {
		name   string
		run    func(r *record.Request)
		end    record.End
		spans  string
		status trace.Status_StatusCode
		code   any // http.response.status_code
	}{
		{
			"its body is no JSON", func(*record.Request) {},
			record.End{Status: 400, Code: "json_parse_error"},
			"POST /v1/chat/completions, accept", unset, int64(400),
		},
		{
			"it is shed", func(r *record.Request) { r.Asks(ms(2), record.Asked{}) },
			record.End{Status: 429, Code: "admission_queue_full"},
			"POST /v1/chat/completions, accept, admit", unset, int64(429),
		},
		{
			"prefill fails", func(r *record.Request) {
				r.Asks(ms(2), record.Asked{Streaming: true})
				r.Leased(leased)
				r.Sent(ms(6))
				r.Over(ms(9), "prefill", "prefill_upstream_error", "")
			},
			record.End{Status: 502, Code: "prefill_upstream_error", Message: "The prefill engine failed."},
			"POST /v1/chat/completions!, accept, admit, choose, attempt!, prefill!, decode", bad, int64(502),
		},
		{
			"decode breaks off amid the stream", func(r *record.Request) {
				r.Asks(ms(2), record.Asked{Streaming: true})
				r.Leased(leased)
				r.Sent(ms(6))
				r.Prefilled(ms(7))
				r.Token(ms(8))
				r.Over(ms(9), "decode", "upstream_disconnected", "")
			},
			record.End{Status: 200, Bytes: 100, Code: "upstream_disconnected"},
			"POST /v1/chat/completions!, accept, admit, choose, attempt!, prefill, hand-off, decode!, relay", bad, int64(200),
		},
		{
			"the client leaves before anything was answered", func(r *record.Request) {
				r.Asks(ms(2), record.Asked{})
				r.Leased(leased)
				r.Over(ms(9), "", "client_gone", "")
			},
			record.End{Status: 499, Code: "client_gone"},
			"POST /v1/chat/completions, accept, admit, choose, attempt, prefill", unset, nil,
		},
		{
			"an answer in JSON", func(r *record.Request) {
				r.Asks(ms(2), record.Asked{})
				r.Leased(leased)
				r.Prefilled(ms(7))
				r.Sent(ms(7))
				r.Answers(ms(8))
				r.Over(ms(9), "", "", "")
			},
			record.End{Status: 200, Bytes: 100},
			"POST /v1/chat/completions, accept, admit, choose, attempt, prefill, decode, relay", unset, int64(200),
		},
		{
			"a panic", func(r *record.Request) {
				r.Asks(ms(2), record.Asked{})
				r.Leased(leased)
			},
			record.End{Status: 500, Code: "internal_error"},
			"POST /v1/chat/completions!, accept, admit, choose, attempt, prefill", bad, int64(500),
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			b := record.NewBook(0)
			r := b.Begin(ms(0), "x")
			r.Is("chat")
			tt.run(r)
			var v record.View
			tt.end.At, tt.end.Copy = ms(10), &v
			b.End(r, &tt.end)
			_, spans := spansOf(t, sampledTrace(t, ""), &v)
			var names []string
			for _, s := range spans {
				if s.Status.GetCode() == bad {
					s.Name += "!"
				}
				names = append(names, s.Name)
			}
			if got := strings.Join(names, ", "); got != tt.spans {
				t.Errorf("spans %s\nwant  %s", got, tt.spans)
			}
			if len(spans[0].ParentSpanId) != 0 {
				t.Error("the root has a parent")
			}
			if got := attributes(spans[0].Attributes)["http.response.status_code"]; got != tt.code {
				t.Errorf("status %v, want %v", got, tt.code)
			}
			if got := attributes(spans[0].Attributes)["error.type"]; tt.end.Code != "" && got != tt.end.Code {
				t.Errorf("error.type %v", got)
			}
		})
	}
}

// TestPage compares the tree in docs/tracing.md with one that is printed. After a
// change: go test ./tracing -run Page -update.
func TestPage(t *testing.T) {
	const path, begin, end = "../docs/tracing.md", "<!-- tree -->\n", "<!-- /tree -->"
	page, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	before, rest, _ := strings.Cut(string(page), begin)
	_, after, ok := strings.Cut(rest, end)
	if !ok {
		t.Fatalf("%s has no tree", path)
	}
	_, spans := spansOf(t, sampledTrace(t, ofClient), retried())
	want := before + begin + "```\n" + tree(spans) + "```\n" + end + after
	if *update {
		if err := os.WriteFile(path, []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
	} else if want != string(page) {
		t.Errorf("%s does not show the spans; run this test with -update and look at the change", path)
	}
}

// tree prints spans as a viewer of traces does.
func tree(spans []*trace.Span) string {
	var b strings.Builder
	origin := spans[0].StartTimeUnixNano
	var show func(s *trace.Span, depth int)
	show = func(s *trace.Span, depth int) {
		in := func(t uint64) time.Duration { return time.Duration(t - origin) }
		fmt.Fprintf(&b, "%-40s %6v %6v", strings.Repeat("  ", depth)+s.Name, in(s.StartTimeUnixNano), in(s.EndTimeUnixNano))
		a := attributes(s.Attributes)
		for _, key := range []string{"pdrouter.waited_for", "pdrouter.choice.reason", "pdrouter.worker.id", "error.type"} {
			if a[key] != nil {
				fmt.Fprintf(&b, "  %s=%v", key, a[key])
			}
		}
		for _, e := range s.Events {
			fmt.Fprintf(&b, "  [%s at %v]", e.Name, in(e.TimeUnixNano))
		}
		b.WriteString("\n")
		for _, child := range spans {
			if string(child.ParentSpanId) == string(s.SpanId) {
				show(child, depth+1)
			}
		}
	}
	show(spans[0], 0)
	return b.String()
}

package transfer

import (
	"errors"
	"strings"
	"testing"
)

// TestParseErrorReadsEveryEnvelope has the shapes of protocols that engines and
// their web servers answer with.
func TestParseErrorReadsEveryEnvelope(t *testing.T) {
	for name, c := range map[string]struct{ body, message, kind string }{
		"flat":              {`{"object":"error","message":"too long","type":"BadRequestError","param":null,"code":400}`, "too long", "BadRequestError"},
		"nested":            {`{"error":{"message":"too long","type":"BadRequest","param":null,"code":400}}`, "too long", "BadRequest"},
		"of Anthropic":      {`{"type":"error","error":{"type":"invalid_request_error","message":"m"}}`, "m", "invalid_request_error"},
		"error is a string": {`{"error":"Unauthorized"}`, "Unauthorized", ""},
		"FastAPI's":         {`{"detail":"Not Found"}`, "Not Found", ""},
		"FastAPI's list":    {`{"detail":[{"loc":["body"],"msg":"field required"}]}`, `[{"loc":["body"],"msg":"field required"}]`, ""},
		"an escaped text":   {`{"error":{"message":"a\u00e9\n\"b\""}}`, "aé\n\"b\"", ""},
		"null in its place": {`{"error":null,"message":"m","type":"t"}`, "m", "t"},
		"plain text":        {"decompress failed\n", "decompress failed", ""},
		"HTML":              {"<html>502 Bad Gateway</html>", "<html>502 Bad Gateway</html>", ""},
		"nothing":           {"", "", ""},
		"a list":            {"[1]", "[1]", ""},
		"an empty object":   {"{}", "{}", ""},
		"cut":               {`{"error":{"mess`, `{"error":{"mess`, ""},
		"no UTF-8":          {"caf\xe9", "caf\ufffd", ""},
	} {
		t.Run(name, func(t *testing.T) {
			got := ParseError(502, []byte(c.body))
			if got.Status != 502 || got.Message != c.message || got.Type != c.kind || string(got.Raw) != c.body {
				t.Errorf("ParseError(%s) = %+v, want message %q, type %q", c.body, got, c.message, c.kind)
			}
		})
	}
}

func TestMessagesOfPlainTextAreBounded(t *testing.T) {
	if got := ParseError(500, []byte(strings.Repeat("x", 1<<20))); len(got.Message) != maxMessage {
		t.Errorf("message of %d bytes, want %d", len(got.Message), maxMessage)
	}
}

func TestVerdictOnPrefill(t *testing.T) {
	for name, c := range map[string]struct {
		e      Endpoint
		body   string
		status int // 0: fine, -1: no JSON
	}{
		"an answer":                    {Chat, `{"choices":[{"finish_reason":"length","message":{"content":"a"}}]}`, 0},
		"with null for an error":       {Chat, `{"error":null,"choices":[]}`, 0},
		"text about an error":          {Completions, `{"choices":[{"text":"{\"error\":1}","finish_reason":"stop"}]}`, 0},
		"an error":                     {Chat, `{"error":{"message":"m","code":400}}`, 400},
		"a flat error":                 {Chat, `{"object":"error","message":"m","code":503}`, 503},
		"an abort":                     {Chat, `{"choices":[{"finish_reason":"abort"}]}`, 500},
		"an abort of the second":       {Completions, `{"choices":[{"finish_reason":"stop"},{"finish_reason":"abort"}]}`, 500},
		"generate":                     {Generate, `{"text":"a","meta_info":{"finish_reason":{"type":"length","length":0}}}`, 0},
		"generate's abort":             {Generate, `{"text":"","meta_info":{"finish_reason":{"type":"abort","message":"m","status_code":400}}}`, 400},
		"generate's abort, no status":  {Generate, `{"text":"","meta_info":{"finish_reason":{"type":"abort"}}}`, 500},
		"a batch":                      {Generate, `[{"text":"a","meta_info":{}},{"text":"b","meta_info":{}}]`, 0},
		"a batch whose second aborted": {Generate, `[{"text":"a","meta_info":{}},{"meta_info":{"finish_reason":{"type":"abort","status_code":503}}}]`, 503},
		"half an answer":               {Chat, `{"choices":[`, -1},
		"two answers":                  {Chat, `{}{}`, -1},
		"a page":                       {Chat, `<html>`, -1},
		"nothing":                      {Chat, ``, -1},
		"a stream":                     {Chat, "data: {}\n\ndata: [DONE]\n\n", -1},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := Verdict(c.e, []byte(c.body))
			failure, _ := errors.AsType[*EngineError](err)
			switch {
			case c.status == 0 && err != nil,
				c.status == -1 && !errors.Is(err, ErrNotJSON),
				c.status > 0 && (failure == nil || failure.Status != c.status):
				t.Errorf("Verdict(%s) = %v, want status %d", c.body, err, c.status)
			}
		})
	}
}

package router

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"compress/zlib"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"
)

// wantError checks that got is an error as OpenAI clients read it.
func wantError(t *testing.T, got answer, status int, code string) {
	t.Helper()
	if got.status != status || got.header.Get("X-Smg-Error-Code") != code {
		t.Errorf("answer = %d %q %s, want %d %q", got.status, got.header.Get("X-Smg-Error-Code"), got.body, status, code)
	}
	if ct := got.header.Get("Content-Type"); ct != "application/json" {
		t.Errorf("Content-Type = %q, want application/json", ct)
	}
	var envelope struct {
		Error map[string]any `json:"error"`
	}
	d := json.NewDecoder(strings.NewReader(got.body))
	d.DisallowUnknownFields()
	if err := d.Decode(&envelope); err != nil {
		t.Fatalf("the envelope %q: %v", got.body, err)
	}
	if message, _ := envelope.Error["message"].(string); message == "" || len(message) > 400 {
		t.Errorf("message = %q, want a short sentence", message)
	}
	if kind, _ := envelope.Error["type"].(string); kind == "" || envelope.Error["code"] != code {
		t.Errorf("envelope = %s, want a type and the code %q", got.body, code)
	}
	if _, ok := envelope.Error["param"]; !ok || len(envelope.Error) != 4 {
		t.Errorf("envelope = %s, want message, type, param and code", got.body)
	}
}

// wantUntouched checks that no engine was sent anything.
func (f *fleet) wantUntouched(t *testing.T) {
	t.Helper()
	if p, d := len(f.prefill.got()), len(f.decode.got()); p+d != 0 {
		t.Errorf("engines were sent %d prefill and %d decode legs, want none", p, d)
	}
}

func newServingFleet(t *testing.T, change ...func(*Config)) *fleet {
	t.Helper()
	return newFleet(t, "sglang", reply(200, chatAnswer), reply(200, chatAnswer), change...)
}

// exchangeRaw writes bytes on a connection of its own and reads the answer and
// whatever is behind it, up to the end of the connection.
func (f *fleet) exchangeRaw(t *testing.T, request string) (got answer, closed bool) {
	t.Helper()
	conn := f.connect(t)
	io.WriteString(conn, request)
	return readAnswer(t, conn)
}

func (f *fleet) connect(t *testing.T) net.Conn {
	t.Helper()
	conn, err := net.Dial("tcp", f.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	return conn
}

func readAnswer(t *testing.T, conn net.Conn) (got answer, closed bool) {
	t.Helper()
	conn.SetReadDeadline(time.Now().Add(5 * time.Second))
	began, r := time.Now(), bufio.NewReader(conn)
	resp, err := http.ReadResponse(r, nil)
	if err != nil {
		t.Fatalf("no answer came: %v", err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	got = answer{resp.StatusCode, resp.Header, string(body), err, time.Since(began)}
	return got, resp.Close
}

// TestBadBodies is about bodies that no engine shall see.
func TestBadBodies(t *testing.T) {
	const head = `{"model":"m","messages":[{"role":"user","content":"`
	deep := strings.Repeat("[", 10_000)
	tests := []struct {
		name, body, wantCode, wantParam string
	}{
		{"nothing", "", "json_parse_error", ""},
		{"only spaces", " \n\t ", "json_parse_error", ""},
		{"not JSON", "hello", "json_parse_error", ""},
		{"a form", "model=m&messages=hi", "json_parse_error", ""},
		{"a list", `[{"model":"m"}]`, "json_parse_error", ""},
		{"a string", `"m"`, "json_parse_error", ""},
		{"null", `null`, "json_parse_error", ""},
		{"two objects", chatRequest + chatRequest, "json_parse_error", ""},
		{"two objects on two lines", chatRequest + "\n" + chatRequest, "json_parse_error", ""},
		{"cut short", chatRequest[:len(chatRequest)-3], "json_parse_error", ""},
		{"cut inside an escape", head + `\u00`, "json_parse_error", ""},
		{"a comma too much", `{"model":"m",}`, "json_parse_error", ""},
		{"single quotes", `{'model':'m'}`, "json_parse_error", ""},
		{"a comment", `{"model":"m"/* */}`, "json_parse_error", ""},
		{"NaN", `{"model":"m","temperature":NaN}`, "json_parse_error", ""},
		{"a leading zero", `{"model":"m","seed":01}`, "json_parse_error", ""},
		{"a byte order mark", "\ufeff" + chatRequest, "json_parse_error", ""},
		{"UTF-16", "{\x00\"\x00m\x00\"\x00:\x001\x00}\x00", "json_parse_error", ""},
		{"a raw newline in a string", head + "a\nb\"}]}", "json_parse_error", ""},
		{"a raw NUL in a string", head + "a\x00b\"}]}", "json_parse_error", ""},
		{"a NUL behind the object", chatRequest + "\x00", "json_parse_error", ""},
		{"invalid UTF-8", head + "\xff\xfe\"}]}", "json_parse_error", ""},
		{"an overlong character", head + "\xc0\xaf\"}]}", "json_parse_error", ""},
		{"a surrogate in UTF-8", head + "\xed\xa0\x80\"}]}", "json_parse_error", ""},
		{"an escape that is none", head + `\x41"}]}`, "json_parse_error", ""},
		{"nesting 10 000 deep", `{"model":"m","messages":` + deep + strings.Repeat("]", 10_000) + `}`, "json_parse_error", ""},
		{"nesting 10 000 deep and cut short", `{"x":` + deep, "json_parse_error", ""},
		{"a model that is a number", `{"model":1,"messages":[]}`, "invalid_type", "model"},
		{"messages that are text", `{"model":"m","messages":"hi"}`, "invalid_type", "messages"},
		{"messages that are an object", `{"model":"m","messages":{}}`, "invalid_type", "messages"},
		{"a stream that is text", `{"model":"m","stream":"true","messages":[]}`, "invalid_type", "stream"},
		{"a stream that is a number", `{"model":"m","stream":1,"messages":[]}`, "invalid_type", "stream"},
		{"stream options that are true", `{"model":"m","stream":true,"stream_options":true,"messages":[]}`, "invalid_type", "stream_options"},
		{"max_tokens that are text", `{"model":"m","max_tokens":"5","messages":[]}`, "invalid_type", "max_tokens"},
		{"n that is text", `{"model":"m","n":"2","messages":[]}`, "invalid_type", "n"},
		{"n that is a fraction", `{"model":"m","n":1.5,"messages":[]}`, "invalid_type", "n"},
		{"two models", `{"model":"m","model":"m","messages":[]}`, "duplicate_key", "model"},
		{"two models, one of them escaped", `{"model":"m","mod\u0065l":"m","messages":[]}`, "duplicate_key", "model"},
		{"two answers asked for", `{"model":"m","n":2,"messages":[]}`, "unsupported_n", "n"},
	}
	f := newServingFleet(t)
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got := f.post(t, "/v1/chat/completions", tt.body)

			wantError(t, got, 400, tt.wantCode)
			if tt.wantParam != "" && !strings.Contains(got.body, `"param":"`+tt.wantParam+`"`) {
				t.Errorf("answer = %s, want the param %s", got.body, tt.wantParam)
			}
		})
	}
	f.wantUntouched(t)
}

// TestOddBodies is about bodies that look bad and are good.
func TestOddBodies(t *testing.T) {
	tests := []struct{ name, body string }{
		{"escaped NUL", `{"model":"m","messages":[{"role":"user","content":"a\u0000b"}]}`},
		{"an escaped surrogate pair", `{"model":"m","messages":[{"role":"user","content":"\ud83d\ude00"}]}`},
		{"half of an escaped surrogate pair", `{"model":"m","messages":[{"role":"user","content":"\ud83d"}]}`},
		{"null for what we read", `{"model":"m","stream":null,"n":null,"max_tokens":null,"messages":null}`},
		{"a key that is not ours, twice", `{"model":"m","seed":1,"seed":2,"messages":[]}`},
		{"numbers of every spelling", `{"model":"m","seed":9007199254740993,"temperature":1.0,"x":1e400,"y":-0.0E+5,"messages":[]}`},
		{"space all around", " \r\n{ \"model\" : \"m\" ,\t\"messages\" : [ ] } \n"},
		{"nesting 900 deep", `{"model":"m","x":` + strings.Repeat("[", 900) + strings.Repeat("]", 900) + `,"messages":[]}`},
		{"keys that nobody knows (BUG-035)", `{"model":"m","messages":[],"chat_template_kwargs":{"enable_thinking":false},"vendor_x":{"k":[1,null]}}`},
		{"what must not be repaired (BUG-037)", `{"model":"m","messages":[],"seed":9007199254740993,"logit_bias":{"50256":-100},"temperature":1.0,"x":1e400,"s":"\ud83d"}`},
		{"reasoning under two names (BUG-040)", `{"model":"m","messages":[{"role":"assistant","reasoning":"r","reasoning_content":"rc","content":null,"tool_calls":[{"id":"1","type":"function","function":{"name":"f","arguments":"{\"a\": 1}"}}]},{"role":"tool","tool_call_id":"1","content":"x"}]}`},
		{"DEL and the end of the plane", "{\"model\":\"m\",\"messages\":[{\"role\":\"user\",\"content\":\"\x7f\U0010ffff\"}]}"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			f := newServingFleet(t)

			got := f.post(t, "/v1/chat/completions", tt.body)

			legs := append(f.decode.got(), f.prefill.got()...)
			if got.status != 200 || got.body != chatAnswer || len(legs) != 2 {
				t.Fatalf("answer = %d %s with %d legs, want 200 with two", got.status, got.body, len(legs))
			}
			// All but the closing brace and what is behind it comes first.
			want := strings.TrimRight(tt.body, " \r\n")
			want = strings.TrimRight(want[:len(want)-1], " ")
			for _, l := range legs {
				if rest, ok := strings.CutPrefix(l.body, want); !ok || !strings.HasPrefix(strings.TrimLeft(rest, " "), `,"bootstrap_host":`) {
					t.Errorf("leg = %s, want it to begin with %s", l.body, want)
				}
			}
		})
	}
}

func gzipped(s string) string {
	var b bytes.Buffer
	w := gzip.NewWriter(&b)
	io.WriteString(w, s)
	w.Close()
	return b.String()
}

func zlibbed(s string) string {
	var b bytes.Buffer
	w := zlib.NewWriter(&b)
	io.WriteString(w, s)
	w.Close()
	return b.String()
}

// TestContentHeaders is about what the client says its body is.
func TestContentHeaders(t *testing.T) {
	zip, zed := gzipped(chatRequest), zlibbed(chatRequest)
	bomb := gzipped(`{"model":"` + strings.Repeat("m", 3<<20) + `"}`)
	tests := []struct {
		name, headers, body string
		wantStatus          int
		wantCode            string
	}{
		{"JSON", "Content-Type: application/json", chatRequest, 200, ""},
		{"JSON and its charset", "Content-Type: application/json; charset=utf-8", chatRequest, 200, ""},
		{"JSON in capitals", "content-type: Application/JSON", chatRequest, 200, ""},
		{"no type", "X: y", chatRequest, 200, ""},
		{"a form", "Content-Type: application/x-www-form-urlencoded", chatRequest, 415, "unsupported_media_type"},
		{"text", "Content-Type: text/plain", chatRequest, 415, "unsupported_media_type"},
		{"a type that is none", "Content-Type: ;;;", chatRequest, 415, "unsupported_media_type"},
		{"a long type", "Content-Type: " + strings.Repeat("a", 5000), chatRequest, 415, "unsupported_media_type"},
		{"identity", "Content-Encoding: identity", chatRequest, 200, ""},
		{"gzip", "Content-Encoding: gzip", zip, 200, ""},
		{"gzip in capitals", "Content-Encoding: GZIP", zip, 200, ""},
		{"gzip in two members", "Content-Encoding: gzip", gzipped(chatRequest[:9]) + gzipped(chatRequest[9:]), 200, ""},
		{"deflate", "Content-Encoding: deflate", zed, 200, ""},
		{"brotli", "Content-Encoding: br", "x", 415, "unsupported_content_encoding"},
		{"zstd", "Content-Encoding: zstd", "x", 415, "unsupported_content_encoding"},
		{"gzip twice", "Content-Encoding: gzip, gzip", gzipped(zip), 415, "unsupported_content_encoding"},
		{"gzip twice in two lines", "Content-Encoding: gzip\r\nContent-Encoding: gzip", gzipped(zip), 415, "unsupported_content_encoding"},
		{"identity before gzip", "Content-Encoding: identity\r\nContent-Encoding: gzip", zip, 415, "unsupported_content_encoding"},
		{"gzip that is none", "Content-Encoding: gzip", chatRequest, 400, "body_unreadable"},
		{"gzip cut short", "Content-Encoding: gzip", zip[:len(zip)-9], 400, "body_unreadable"},
		{"gzip of nothing", "Content-Encoding: gzip", "", 400, "body_unreadable"},
		{"gzip with a wrong checksum", "Content-Encoding: gzip", zip[:len(zip)-6] + "\xff\xff" + zip[len(zip)-4:], 400, "body_unreadable"},
		{"gzip with something behind it", "Content-Encoding: gzip", zip + "GET / HTTP/1.1\r\n\r\n", 400, "body_unreadable"},
		{"gzip with garbage inside", "Content-Encoding: gzip", zip[:12] + strings.Repeat("\xff", 40), 400, "body_unreadable"},
		{"deflate with something behind it", "Content-Encoding: deflate", zed + "GET / HTTP/1.1\r\n\r\n", 400, "body_unreadable"},
		{"deflate cut short", "Content-Encoding: deflate", zed[:len(zed)-5], 400, "body_unreadable"},
		{"a bomb", "Content-Encoding: gzip", bomb, 413, "request_too_large"},
		{"a bomb that decodes to nothing", "Content-Encoding: gzip\r\nTransfer-Encoding: chunked", strings.Repeat(gzipped(""), 60_000), 413, "request_too_large"},
	}
	f := newServingFleet(t, func(c *Config) { c.MaxBodyBytes = 1 << 20 })
	served := 0
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			head := "POST /v1/chat/completions HTTP/1.1\r\nHost: h\r\n" + tt.headers + "\r\n"
			if strings.Contains(tt.headers, "chunked") {
				tt.body = chunked(tt.body)
			} else {
				head += "Content-Length: " + strconv.Itoa(len(tt.body)) + "\r\n"
			}

			got, _ := f.exchangeRaw(t, head+"\r\n"+tt.body)

			if tt.wantStatus != 200 {
				wantError(t, got, tt.wantStatus, tt.wantCode)
			} else {
				served++
				if legs := f.decode.got(); got.status != 200 || len(legs) != served || !strings.HasPrefix(legs[served-1].body, chatRequest[:len(chatRequest)-1]) {
					t.Errorf("answer = %d %s with %d legs, want 200 and the body decoded", got.status, got.body, len(legs))
				}
			}
			if n := f.handler.BufferedBytes(); n != 0 {
				wait(t, "the body to be let go", func() bool { return f.handler.BufferedBytes() == 0 })
			}
		})
	}
	if n := len(f.decode.got()); n != served {
		t.Errorf("engines were sent %d legs, want %d", n, served)
	}
}

func chunked(body string) string {
	var b strings.Builder
	for len(body) > 0 {
		n := min(len(body), 64<<10)
		fmt.Fprintf(&b, "%x\r\n%s\r\n", n, body[:n])
		body = body[n:]
	}
	return b.String() + "0\r\n\r\n"
}

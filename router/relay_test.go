package router

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"
)

// trickle writes the bytes one by one, each flushed.
func trickle(contentType, text string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", contentType)
		for i := range len(text) {
			io.WriteString(w, text[i:i+1])
			w.(http.Flusher).Flush()
		}
	}
}

func delta(text string) string {
	return `data: {"id":"x","choices":[{"index":0,"delta":` + text + `,"finish_reason":null}]}` + "\n\n"
}

// TestBytesDown is about I5 on the way to the client: it reads decode's bytes,
// however they were cut.
func TestBytesDown(t *testing.T) {
	tools := delta(`{"role":"assistant","content":null}`) +
		delta(`{"tool_calls":[{"index":0,"id":"a","type":"function","function":{"name":"f","arguments":""}}]}`) +
		delta(`{"tool_calls":[{"index":1,"id":"b","type":"function","function":{"name":"g","arguments":""}}]}`) +
		delta(`{"tool_calls":[{"index":0,"function":{"arguments":"{\"a"}}]}`) +
		delta(`{"content":""}`) + delta(`{}`) +
		delta(`{"tool_calls":[{"index":1,"function":{"arguments":"{}"}}]}`) +
		delta(`{"tool_calls":[{"index":0,"function":{"arguments":"\":1}"}}]}`)
	tests := []struct{ name, text string }{
		{"characters of three and four bytes (BUG-047)", delta(`{"content":"你好"}`) + delta(`{"content":"😀 ë \ud83d"}`)},
		{"tool calls that take turns (BUG-052)", tools},
		{"reasoning under two names (BUG-040)", delta(`{"reasoning":"r"}`) + delta(`{"reasoning_content":"rc","content":null}`)},
		{"comments, ids and retries", ": ping\n\nid: 1\nretry: 5\nevent: x\ndata: {\"choices\":[{\"delta\":{\"content\":\"x\"}}]}\n\n: ping\n\n"},
		{"an event of several lines", "data: {\"choices\":\ndata: [{\"delta\":{\"content\":\"x\"}}]}\n\n"},
		{"lines that end in CRLF", strings.ReplaceAll(delta(`{"content":"a"}`)+delta(`{"content":"b"}`), "\n", "\r\n")},
		{"events that are no JSON", "data: hello\n\ndata: \n\n\n\n" + delta(`{"content":"a"}`)},
		{"invalid UTF-8", delta("{\"content\":\"\xff\xfe\"}")},
	}
	for _, tt := range tests {
		whole := tt.text + finishEvent + doneEvent
		for name, decode := range map[string]http.HandlerFunc{
			", byte by byte": trickle("text/event-stream", whole),
			", at once":      events(whole),
		} {
			t.Run(tt.name+name, func(t *testing.T) {
				f := newFleet(t, "sglang", reply(200, chatAnswer), decode)

				got := f.post(t, "/v1/chat/completions", streamRequest)

				if got.status != 200 || got.body != whole || got.err != nil {
					t.Errorf("answer = %d %q (%v), want 200 %q", got.status, got.body, got.err, whole)
				}
			})
		}
	}
}

// TestLongEvent is about an event that is longer than the buffer.
func TestLongEvent(t *testing.T) {
	whole := delta(`{"content":"`+strings.Repeat("é", 3*maxEvent)+`"}`) + finishEvent + doneEvent
	f := newFleet(t, "sglang", reply(200, chatAnswer), events(whole))

	if got := f.post(t, "/v1/chat/completions", streamRequest); got.body != whole || got.err != nil {
		t.Errorf("answer = %d with %d bytes (%v), want 200 with %d", got.status, len(got.body), got.err, len(whole))
	}
}

// TestJSONBytesDown is about I5 for answers of one JSON value.
func TestJSONBytesDown(t *testing.T) {
	odd := " {\n  \"choices\" : [ {\"index\":0,\"message\":{\"content\":\"\\u00e9é\\ud83d\",\"x\":1.0,\"x\":1e400}} ]\t}\r\n "
	for _, text := range []string{odd, chatAnswer, `{"choices":[]}`} {
		f := newFleet(t, "sglang", reply(200, chatAnswer), trickle("application/json", text))

		if got := f.post(t, "/v1/chat/completions", chatRequest); got.status != 200 || got.body != text || got.err != nil {
			t.Errorf("answer = %d %q (%v), want 200 %q", got.status, got.body, got.err, text)
		}
	}
}

// TestLargeAnswers is about JSON answers that are too long to be held.
func TestLargeAnswers(t *testing.T) {
	big := `{"choices":[{"index":0,"message":{"content":"` + strings.Repeat("x", 3<<20) + `"}}]}`
	const head = "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n"
	length := fmt.Sprintf("Content-Length: %d\r\n\r\n", len(big))
	cut := big[:2<<20]
	chunks := chunked(cut)
	tests := []struct {
		name, answer, version string
		whole                 bool
	}{
		{"with a length", head + length + big, "1.1", true},
		{"in chunks", head + "Transfer-Encoding: chunked\r\n\r\n" + chunked(big), "1.1", true},
		{"with a length, cut", head + length + cut, "1.1", false},
		{"in chunks, cut", head + "Transfer-Encoding: chunked\r\n\r\n" + chunks[:len(chunks)-5], "1.1", false},
		{"with a length, to an old client", head + length + big, "1.0", true},
		{"in chunks, to an old client", head + "Transfer-Encoding: chunked\r\n\r\n" + chunked(big), "1.0", true},
		{"in chunks, cut, to an old client", head + "Transfer-Encoding: chunked\r\n\r\n" + chunks[:len(chunks)-5], "1.0", false},
		{"with a length, cut, to an old client", head + length + cut, "1.0", false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			f := newFleet(t, "sglang", reply(200, chatAnswer), raw(tt.answer), func(c *Config) { c.MaxAnswerBytes = 1 << 20 })

			got, _ := f.exchangeRaw(t, fmt.Sprintf("POST /v1/chat/completions HTTP/%s\r\nHost: h\r\nContent-Length: %d\r\n\r\n%s", tt.version, len(chatRequest), chatRequest))

			if tt.whole && (got.err != nil || got.body != big) {
				t.Errorf("the client reads %d bytes (%v), want %d", len(got.body), got.err, len(big))
			}
			if !tt.whole && got.err == nil {
				t.Errorf("the client reads %d bytes and a clean end, want an error", len(got.body))
			}
			if !tt.whole {
				wait(t, "the fault to be counted", func() bool { return f.legOutcome(t, "decode", "failed") == 1 })
			}
		})
	}
}

// TestRefusals is about what an engine says when it refuses: JSON is relayed as
// it is, all else becomes an envelope of ours.
func TestRefusals(t *testing.T) {
	const ours = `{"error":{"message":"The engine refused the request.","type":"invalid_request_error","param":null,"code":"prefill_upstream_error"}}`
	const odd = `{ "error" : {"message":"x\u00e9é" , "code":400.0 } }`
	tests := []struct {
		name       string
		prefill    http.HandlerFunc
		wantStatus int
		wantBody   string
	}{
		{"JSON", reply(400, odd), 400, odd},
		{"JSON with space around", reply(422, "\n"+odd+"\n"), 422, odd},
		{"text", reply(400, "no"), 400, ours},
		{"nothing", reply(404, ""), 404, ours},
		{"a list", reply(400, "[1]"), 400, ours},
		{"half an object", reply(400, odd[:9]), 400, ours},
		{"an object that is cut", raw("HTTP/1.1 400 Bad Request\r\nContent-Length: 900\r\n\r\n" + odd[:9]), 400, ours},
		{"a page", reply(413, "<html>"), 413, ours},
		{"the status of a client that left", reply(499, odd), 502, ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			f := newFleet(t, "sglang", tt.prefill, hang)

			got := f.post(t, "/v1/chat/completions", chatRequest)

			if got.status != tt.wantStatus || tt.wantBody != "" && got.body != tt.wantBody {
				t.Errorf("answer = %d %s, want %d %s", got.status, got.body, tt.wantStatus, tt.wantBody)
			}
			if tt.wantStatus == 502 {
				wantError(t, got, 502, "prefill_upstream_error")
			}
		})
	}
}

// endless streams tokens until its client is gone.
func endless(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "text/event-stream")
	text := strings.Repeat(tokenEvent(1), 1000)
	for r.Context().Err() == nil {
		if _, err := io.WriteString(w, text); err != nil {
			return
		}
	}
}

// TestClientStalls is about a client that takes nothing of its answer: it ends
// as its own departure.
func TestClientStalls(t *testing.T) {
	big := `{"choices":[{"message":{"content":"` + strings.Repeat("x", 6<<20) + `"}}]}`
	tests := []struct {
		name, request string
		decode        http.HandlerFunc
		wantDecode    string
	}{
		{"a stream", streamRequest, endless, "canceled"},
		{"a large JSON answer", chatRequest, reply(200, big), "canceled"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			f := newFleet(t, "sglang", reply(200, chatAnswer), tt.decode, func(c *Config) { c.ClientStall = 100 * time.Millisecond })
			f.dial(t, "/v1/chat/completions", tt.request).(*net.TCPConn).SetReadBuffer(4 << 10)

			entry := f.lastLog(t, 1)

			if entry.Message != "client left" || f.value(t, "pdrouter_client_departures_total", nil) != 1 {
				t.Errorf("the log says %q, want the client's departure", entry.Message)
			}
			if n := f.legOutcome(t, "decode", tt.wantDecode); n != 1 {
				t.Errorf("decode legs that ended %s = %v, want 1", tt.wantDecode, n)
			}
		})
	}
}

// TestSlowClient is about a client that takes a large answer slowly, over more
// time than it may stall.
func TestSlowClient(t *testing.T) {
	big := `{"choices":[{"message":{"content":"` + strings.Repeat("x", 8<<20) + `"}}]}`
	f := newFleet(t, "sglang", reply(200, chatAnswer), reply(200, big), func(c *Config) { c.ClientStall = 800 * time.Millisecond })
	conn := f.dial(t, "/v1/chat/completions", chatRequest)
	conn.(*net.TCPConn).SetReadBuffer(256 << 10)
	resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	tick := time.NewTicker(30 * time.Millisecond)
	defer tick.Stop()
	n, buf := 0, make([]byte, 128<<10)
	for err == nil {
		<-tick.C
		var m int
		m, err = io.ReadFull(resp.Body, buf)
		n += m
	}
	if n != len(big) {
		t.Errorf("the client reads %d bytes (%v), want %d", n, err, len(big))
	}
}

// TestOldClients is about clients that do not speak as most do.
func TestOldClients(t *testing.T) {
	whole := tokenEvent(1) + finishEvent + doneEvent
	tests := []struct{ name, head, body, want string }{
		{"HTTP/1.0", "HTTP/1.0\r\n", streamRequest, whole},
		{"HTTP/1.0 that would go on", "HTTP/1.0\r\nConnection: keep-alive\r\n", streamRequest, whole},
		{"HTTP/1.0, JSON", "HTTP/1.0\r\nConnection: keep-alive\r\n", chatRequest, chatAnswer},
		{"one that closes", "HTTP/1.1\r\nHost: h\r\nConnection: close\r\n", streamRequest, whole},
		{"one that waits to be asked", "HTTP/1.1\r\nHost: h\r\nExpect: 100-continue\r\n", streamRequest, whole},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			decode := events(tokenEvent(1), finishEvent, doneEvent)
			if tt.body == chatRequest {
				decode = reply(200, chatAnswer)
			}
			f := newFleet(t, "sglang", reply(200, chatAnswer), decode)
			conn := f.connect(t)
			conn.SetDeadline(time.Now().Add(5 * time.Second))
			fmt.Fprintf(conn, "POST /v1/chat/completions %sContent-Length: %d\r\n\r\n", tt.head, len(tt.body))
			r := bufio.NewReader(conn)
			if strings.Contains(tt.head, "Expect") {
				wantContinue(t, r)
			}
			io.WriteString(conn, tt.body)

			resp, err := http.ReadResponse(r, nil)
			if err != nil {
				t.Fatal(err)
			}
			body, err := io.ReadAll(resp.Body)
			resp.Body.Close()

			if resp.StatusCode != 200 || string(body) != tt.want || err != nil {
				t.Errorf("answer = %d %q (%v), want 200 %q", resp.StatusCode, body, err, tt.want)
			}
		})
	}
}

func wantContinue(t *testing.T, r *bufio.Reader) {
	t.Helper()
	resp, err := http.ReadResponse(r, nil)
	if err != nil {
		t.Fatal(err)
	}
	if resp.Body.Close(); resp.StatusCode != 100 {
		t.Fatalf("status = %d, want 100 Continue", resp.StatusCode)
	}
}

// TestHTTP2 is about clients that come over TLS: their streams share a
// connection, and a deadline that passes ends one even if nothing is written.
func TestHTTP2(t *testing.T) {
	const stall = 300 * time.Millisecond
	pause := func(http.ResponseWriter, *http.Request) {
		timer := time.NewTimer(2 * stall)
		<-timer.C
	}
	slow := then(pause, events(tokenEvent(1)), pause, events(tokenEvent(2), finishEvent, doneEvent))
	f := newFleet(t, "sglang", reply(200, chatAnswer), slow, func(c *Config) { c.ClientStall = stall })
	srv := httptest.NewUnstartedServer(f.handler)
	srv.EnableHTTP2 = true
	srv.StartTLS()
	defer srv.Close()
	client := srv.Client()
	defer client.CloseIdleConnections()
	post := func(path, body string) (answer, int) {
		req, _ := http.NewRequestWithContext(t.Context(), http.MethodPost, srv.URL+path, strings.NewReader(body))
		resp, err := client.Do(req)
		if err != nil {
			t.Error(err)
			return answer{}, 0
		}
		defer resp.Body.Close()
		b, err := io.ReadAll(resp.Body)
		return answer{resp.StatusCode, resp.Header, string(b), err, 0}, resp.ProtoMajor
	}
	want := tokenEvent(1) + tokenEvent(2) + finishEvent + doneEvent
	var clients sync.WaitGroup
	for range 4 {
		clients.Go(func() {
			if got, proto := post("/v1/chat/completions", streamRequest); got.status != 200 || got.body != want || got.err != nil || proto != 2 {
				t.Errorf("answer = %d %q (%v) over HTTP/%d, want 200 %q over 2", got.status, got.body, got.err, proto, want)
			}
		})
		clients.Go(func() {
			got, _ := post("/x", streamRequest)
			wantError(t, got, 404, "not_found")
		})
	}
	clients.Wait()
	wait(t, "all to end", func() bool { return f.logs.Len() == 8 })
}

// TestHTTP2Departure is about a client that ends one stream and keeps the
// connection.
func TestHTTP2Departure(t *testing.T) {
	f := newFleet(t, "sglang", reply(200, chatAnswer), then(events(tokenEvent(1)), hang))
	srv := httptest.NewUnstartedServer(f.handler)
	srv.EnableHTTP2 = true
	srv.StartTLS()
	defer srv.Close()
	client := srv.Client()
	defer client.CloseIdleConnections()
	req, _ := http.NewRequestWithContext(t.Context(), http.MethodPost, srv.URL+"/v1/chat/completions", strings.NewReader(streamRequest))
	resp, err := client.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	io.ReadFull(resp.Body, make([]byte, len(tokenEvent(1))))
	left := time.Now()
	resp.Body.Close()

	<-f.decode.closed

	if d := time.Since(left); d > time.Second {
		t.Errorf("the decode leg was closed after %v, want at most 1s", d)
	}
	f.lastLog(t, 1) // Close does not wait for handlers over HTTP/2
}

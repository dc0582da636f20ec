package router

import (
	"bufio"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"
)

// A request whose model says which one it is.
func numbered(i int) string {
	return fmt.Sprintf(`{"model":"m","messages":[],"user":"request %d"}`, i)
}

// TestSmuggling is about bytes that one side takes for the end of a request and
// another for its middle. Whatever net/http makes of a shape, each leg carries
// exactly one request that was framed as such, under a head of our own.
func TestSmuggling(t *testing.T) {
	const post = "POST /v1/chat/completions HTTP/1.1\r\nHost: h\r\n"
	one, two := numbered(1), numbered(2)
	length := func(s string) string { return fmt.Sprintf("Content-Length: %d\r\n", len(s)) }
	inner := post + length(two) + "\r\n" + two
	const te = "Transfer-Encoding: chunked\r\n"
	tests := []struct {
		name, bytes string
		wantStatus  []int    // of the answers, in order
		wantLegs    []string // users of decode's legs, in order
	}{
		{"two requests, the second behind the first", post + length(one) + "\r\n" + one + inner, []int{200, 200}, []string{"request 1", "request 2"}},
		{"two requests in chunks", post + te + "\r\n" + chunked(one) + post + te + "\r\n" + chunked(two), []int{200, 200}, []string{"request 1", "request 2"}},
		{"a length and chunks (CL.TE)", post + "Content-Length: 6\r\n" + te + "\r\n" + chunked(one) + inner, []int{200, 200}, []string{"request 1", "request 2"}},
		{"chunks and a length (TE.CL)", post + te + length(chunked(one)+inner) + "\r\n" + chunked(one) + inner, []int{200, 200}, []string{"request 1", "request 2"}},
		{"chunks that end at once, and a length", post + te + length(inner) + "\r\n0\r\n\r\n" + inner, []int{400, 200}, []string{"request 2"}},
		{"two transfer encodings (TE.TE)", post + "Transfer-Encoding: chunked\r\nTransfer-Encoding: identity\r\n\r\n" + chunked(one) + inner, []int{501}, nil},
		{"an unknown transfer encoding", post + "Transfer-Encoding: xchunked\r\n" + length(one) + "\r\n" + one, []int{501}, nil},
		{"chunked behind gzip", post + "Transfer-Encoding: gzip, chunked\r\n\r\n" + chunked(one), []int{501}, nil},
		{"a vertical tab in the transfer encoding", post + "Transfer-Encoding: \x0bchunked\r\n" + length(one) + "\r\n" + one + inner, []int{400}, nil},
		{"a transfer encoding with a space before its colon", post + "Transfer-Encoding : chunked\r\n" + length(one) + "\r\n" + one + inner, []int{400}, nil},
		{"a header line that is folded (obs-fold)", post + "X: y\r\n Transfer-Encoding: chunked\r\n" + length(one) + "\r\n" + one, []int{200}, []string{"request 1"}},
		{"a folded transfer encoding", post + "Transfer-Encoding:\r\n chunked\r\n\r\n" + chunked(one) + inner, []int{200, 200}, []string{"request 1", "request 2"}},
		{"two lengths that differ", post + length(one) + length(one+inner) + "\r\n" + one + inner, []int{400}, nil},
		{"two lengths that are the same", post + length(one) + length(one) + "\r\n" + one + inner, []int{200, 200}, []string{"request 1", "request 2"}},
		{"a list of lengths", post + fmt.Sprintf("Content-Length: %d, %d\r\n\r\n", len(one), len(one)) + one, []int{400}, nil},
		{"a length with a plus", post + "Content-Length: +5\r\n\r\n" + one, []int{400}, nil},
		{"a negative length", post + "Content-Length: -1\r\n\r\n" + one, []int{400}, nil},
		{"a length in hex", post + "Content-Length: 0x10\r\n\r\n" + one, []int{400}, nil},
		{"a length that overflows", post + "Content-Length: 99999999999999999999\r\n\r\n" + one, []int{400}, nil},
		{"an empty length", post + "Content-Length: \r\n\r\n" + one, []int{400}, nil},
		{"a length with a space before its colon", post + "Content-Length : 5\r\n\r\n" + one, []int{400}, nil},
		{"lines that end in LF", strings.ReplaceAll(post+length(one)+"\r\n", "\r\n", "\n") + one + inner, []int{200, 200}, []string{"request 1", "request 2"}},
		{"a bare CR in a header", post + "X: a\rTransfer-Encoding: chunked\r\n" + length(one) + "\r\n" + one + inner, []int{400}, nil},
		{"a NUL in a header", post + "X: a\x00b\r\n" + length(one) + "\r\n" + one + inner, []int{400}, nil},
		{"a chunk extension", post + te + "\r\n" + fmt.Sprintf("%x;a=b\r\n%s\r\n0;c\r\n\r\n", len(one), one) + inner, []int{200, 200}, []string{"request 1", "request 2"}},
		{"a chunk size that overflows", post + te + "\r\n10000000000000000\r\n" + one, []int{400}, nil},
		{"a chunk size with a minus", post + te + "\r\n-5\r\n" + one, []int{400}, nil},
		{"a chunk longer than its size", post + te + "\r\n" + fmt.Sprintf("%x\r\n%s\r\n0\r\n\r\n", len(one)-5, one) + inner, []int{400}, nil},
		{"a trailer that is a framing header", post + te + "Trailer: Content-Length\r\n\r\n" + strings.TrimSuffix(chunked(one), "\r\n") + "Content-Length: 9\r\n\r\n" + inner, []int{400}, nil},
		{"a request in the body of a refused one", post + "Content-Type: text/plain\r\n" + length(inner) + "\r\n" + inner, []int{415}, nil},
		{"a request in the body of one too large", post + "Content-Length: 5000000\r\n\r\n" + inner, []int{413}, nil},
		{"a request in the body of one without a route", "POST /x HTTP/1.1\r\nHost: h\r\n" + length(inner) + "\r\n" + inner, []int{404}, nil},
		{"a request in the body of a GET", "GET /health HTTP/1.1\r\nHost: h\r\n" + length(inner) + "\r\n" + inner, []int{200}, nil},
		{"a request behind the gzip of another", post + "Content-Encoding: deflate\r\n" + length(zlibbed(one)+inner) + "\r\n" + zlibbed(one) + inner, []int{400}, nil},
		{"a body shorter than its JSON", post + "Content-Length: 5\r\n\r\n" + one, []int{400, 400}, nil},
		{"no host", "POST /v1/chat/completions HTTP/1.1\r\n" + length(one) + "\r\n" + one, []int{400}, nil},
		{"two hosts", post + "Host: other\r\n" + length(one) + "\r\n" + one, []int{400}, nil},
		{"a proxy's request line", "POST http://169.254.169.254/v1/chat/completions HTTP/1.1\r\nHost: h\r\n" + length(one) + "\r\n" + one, []int{200}, []string{"request 1"}},
		{"a header in the request line", "POST /v1/chat/completions HTTP/1.1 X: y\r\nHost: h\r\n\r\n", []int{400}, nil},
		{"HTTP/2 without TLS", "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", []int{404}, nil},
		{"a head that is too large", post + "X: " + strings.Repeat("x", 2<<20) + "\r\n\r\n", []int{431}, nil},
	}
	f := newServingFleet(t, func(c *Config) { c.MaxBodyBytes = 1 << 20 })
	legs := 0
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			status := f.statuses(t, tt.bytes)

			if !slices.Equal(status, tt.wantStatus) {
				t.Errorf("answers = %v, want %v", status, tt.wantStatus)
			}
			for _, e := range []*engine{f.prefill, f.decode} {
				if got := users(t, e.got()[legs:]); !slices.Equal(got, tt.wantLegs) {
					t.Errorf("legs = %v, want %v", got, tt.wantLegs)
				}
			}
			legs = len(f.decode.got())
		})
	}
}

// statuses writes the bytes on one connection, closes its half, and returns the
// status of each answer.
func (f *fleet) statuses(t *testing.T, bytes string) (status []int) {
	t.Helper()
	conn := f.connect(t)
	conn.SetDeadline(time.Now().Add(5 * time.Second))
	done := make(chan struct{})
	go func() {
		defer close(done)
		io.WriteString(conn, bytes) // as much as is taken
		io.WriteString(conn, "GET /liveness HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n")
	}()
	defer func() { conn.Close(); <-done }()
	r := bufio.NewReader(conn)
	for {
		resp, err := http.ReadResponse(r, nil)
		if err != nil {
			return status
		}
		body, _ := io.ReadAll(resp.Body)
		resp.Body.Close()
		if string(body) == "OK" && resp.Close && resp.Header.Get("Content-Type") == "text/plain; charset=utf-8" && len(status) > 0 {
			return status // our own last request
		}
		status = append(status, resp.StatusCode)
	}
}

// users returns who the legs say they are for, after checking that each is one
// of ours and nothing else.
func users(t *testing.T, legs []received) (names []string) {
	t.Helper()
	for _, l := range legs {
		_, rest, ok := strings.Cut(l.body, `"user":"`)
		name, rest, _ := strings.Cut(rest, `"`)
		if !ok || !strings.HasPrefix(l.body, `{"model":"m","messages":[],"user":"`) || !strings.HasPrefix(rest, `,"bootstrap_host":`) ||
			strings.ContainsAny(l.body, "\r\n") || l.path != "/v1/chat/completions" {
			t.Errorf("leg = %s %q, want one whole request", l.path, l.body)
		}
		names = append(names, name)
	}
	return names
}

// TestManyOnOneConnection sends requests one after another and behind each
// other on one connection, each with an answer of its own.
func TestManyOnOneConnection(t *testing.T) {
	const n = 50
	echo := func(w http.ResponseWriter, r *http.Request) { reply(200, chatAnswer)(w, r) }
	f := newFleet(t, "sglang", echo, echo)
	conn := f.connect(t)
	conn.SetDeadline(time.Now().Add(10 * time.Second))
	go func() {
		for i := range n {
			body := numbered(i)
			fmt.Fprintf(conn, "POST /v1/chat/completions HTTP/1.1\r\nHost: h\r\nX-Request-Id: id-%d\r\nContent-Length: %d\r\n\r\n%s", i, len(body), body)
		}
	}()
	r := bufio.NewReader(conn)
	for i := range n {
		resp, err := http.ReadResponse(r, nil)
		if err != nil {
			t.Fatalf("answer %d: %v", i, err)
		}
		body, _ := io.ReadAll(resp.Body)
		resp.Body.Close()
		if id := resp.Header.Get("X-Request-Id"); id != fmt.Sprintf("id-%d", i) || string(body) != chatAnswer {
			t.Fatalf("answer %d = %s %s", i, id, body)
		}
	}
	names := users(t, f.decode.got())
	for i := range n {
		if len(names) != n || names[i] != fmt.Sprintf("request %d", i) {
			t.Fatalf("decode's legs = %v, want each request once, in order", names)
		}
	}
}

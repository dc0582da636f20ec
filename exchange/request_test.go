package exchange

import (
	"errors"
	"io"
	"strings"
	"testing"
	"time"
)

func TestRequestOnTheWire(t *testing.T) {
	tests := []struct {
		name string
		req  Request
		want string
	}{
		{
			name: "a post by default, fragments one after another",
			req: Request{
				Path:   "/v1/completions?a=b%20c",
				Header: []Field{{"content-type", "application/json"}, {"X-Key", "b"}, {"X-Key", "a\tü"}, {"X-Empty", ""}},
				Body:   [][]byte{[]byte(`{"a":`), nil, []byte(`1`), {}, []byte(`}`)},
			},
			want: "POST /v1/completions?a=b%20c HTTP/1.1\r\nHost: HOST\r\ncontent-type: application/json\r\nX-Key: b\r\nX-Key: a\tü\r\nX-Empty: \r\nContent-Length: 7\r\n\r\n{\"a\":1}",
		},
		{
			name: "a post without a body has a length",
			req:  Request{Path: "/flush_cache"},
			want: "POST /flush_cache HTTP/1.1\r\nHost: HOST\r\nContent-Length: 0\r\n\r\n",
		},
		{
			name: "a get without a body has none",
			req:  Request{Method: "GET", Path: "/health"},
			want: "GET /health HTTP/1.1\r\nHost: HOST\r\n\r\n",
		},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			got := make(chan string, 1)
			url := serve(t, func(l *line) {
				buf := make([]byte, len(test.want)+len(l.LocalAddr().String())-len("HOST"))
				_, _ = io.ReadFull(l.r, buf)
				got <- string(buf)
				l.say(okAnswer)
				l.untilClosed()
			})
			exchanged(t, dialled(t, url), &test.req)
			host := strings.TrimPrefix(url, "http://")
			if got, want := <-got, strings.Replace(test.want, "HOST", host, 1); got != want {
				t.Errorf("request = %q, want %q", got, want)
			}
		})
	}
}

func TestMalformedRequestIsNotSent(t *testing.T) {
	header := func(name, value string) Request {
		return Request{Path: "/", Header: []Field{{"X-Good", "1"}, {name, value}}}
	}
	tests := map[string]Request{
		"CR LF in a value":             header("X", "a\r\nY: b"),
		"LF in a value":                header("X", "a\nb"),
		"CR in a value":                header("X", "a\rb"),
		"NUL in a value":               header("X", "a\x00b"),
		"DEL in a value":               header("X", "a\x7f"),
		"CR LF in a name":              header("X\r\nY", "a"),
		"NUL in a name":                header("X\x00", "a"),
		"a colon in a name":            header("X:", "a"),
		"a space in a name":            header("X Y", "a"),
		"a name that is not ASCII":     header("Ü", "a"),
		"an empty name":                header("", "a"),
		"a length of the caller's":     header("content-length", "5"),
		"a coding of the caller's":     header("Transfer-Encoding", "chunked"),
		"a host of the caller's":       header("HOST", "evil"),
		"a connection of the caller's": header("Connection", "close"),
		"an upgrade":                   header("Upgrade", "h2c"),
		"an expectation":               header("Expect", "100-continue"),
		"no path":                      {},
		"a path without a slash":       {Path: "v1"},
		"a whole URL for a path":       {Path: "http://evil/"},
		"a space in the path":          {Path: "/a b"},
		"CR LF in the path":            {Path: "/ HTTP/1.1\r\nX: y"},
		"a method that is no token":    {Method: "GET /x HTTP/1.1\r\n", Path: "/"},
	}
	url := serve(t, func(*line) { t.Error("a connection was opened") })
	for name, req := range tests {
		t.Run(name, func(t *testing.T) {
			p := dialled(t, url)
			a, err := p.Do(t.Context(), &req)
			if a != nil || !errors.Is(err, ErrRequest) {
				t.Errorf("Do() = %v, %v, want ErrRequest", a, err)
			}
			if e, ok := errors.AsType[*Error](err); ok {
				t.Errorf("Do() = %+v, which blames the worker", e)
			}
		})
	}
}

func TestRefusedValueIsNotRepeated(t *testing.T) {
	p := dialled(t, "http://127.0.0.1:1")
	_, err := p.Do(t.Context(), &Request{Path: "/", Header: []Field{{"Authorization", "Bearer secret\n"}}})
	if err == nil || strings.Contains(err.Error(), "secret") {
		t.Errorf("Do() = %v, want an error without the key", err)
	}
}

func TestRequestLetsGoOfTheBody(t *testing.T) {
	p := dialled(t, serve(t, saying(okAnswer)))
	exchanged(t, p, post())
	c, err := p.pool.take(time.Now())
	if c == nil || err != nil {
		t.Fatalf("take() = %v, %v", c, err)
	}
	defer p.pool.drop(c)
	for i, b := range c.out.vec {
		if b != nil {
			t.Errorf("idle connection holds fragment %d of %d bytes", i, len(b))
		}
	}
	if len(c.out.rest) > 0 {
		t.Errorf("idle connection holds %d fragments", len(c.out.rest))
	}
}

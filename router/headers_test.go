package router

import (
	"fmt"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"

	"pdrouter/keys"
)

const traceparent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"

// postWith posts chatRequest with the headers, "Name: value" each.
func (f *fleet) postWith(t *testing.T, headers ...string) answer {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, f.URL+"/v1/chat/completions", strings.NewReader(chatRequest))
	if err != nil {
		t.Fatal(err)
	}
	for _, line := range headers {
		name, value, _ := strings.Cut(line, ": ")
		req.Header.Add(name, value)
	}
	return do(t, req)
}

// TestHeadersUp checks exactly what reaches the engines (I6).
func TestHeadersUp(t *testing.T) {
	own := []string{"Content-Length", "Content-Type: application/json", "X-Request-Id"}
	long := strings.Repeat("x", maxField+1)
	tests := []struct {
		name string
		sent []string
		want []string // besides own
	}{
		{"nothing but our own", nil, nil},
		{"what is not named in the list", []string{
			"X-Foo: 1", "Cookie: a=b", "Accept: */*", "Accept-Encoding: gzip", "User-Agent: u", "Origin: http://o", "Referer: r",
			"X-Request-Id: mine", "X-Correlation-Id: mine", "X-Override-Rid: mine", "X-Data-Parallel-Rank: 3", "X-Smg-Target-Worker: 1",
			"X-Forwarded-For: 1.2.3.4", "X-Forwarded-Host: h", "Forwarded: for=x", "X-Real-Ip: 1.2.3.4", "X-Http-Method-Override: GET",
			"Proxy-Authorization: Basic eA==", "Te: trailers", "Upgrade: websocket", "Connection: X-Smg-Routing-Key", "Expect-Ct: x",
			"X-Prefiller-Host-Port: 1.2.3.4:5", "X-Kv-Transfer-Params: {}", "Content-Md5: x", "Content-Language: en", "Range: bytes=0-1", "If-None-Match: x",
		}, nil},
		{"a trace", []string{"Traceparent: " + traceparent, "Tracestate: a=1", "Tracestate: b=2"}, []string{"Traceparent: " + traceparent, "Tracestate: a=1,b=2"}},
		{"a trace of a later version", []string{"Traceparent: 01" + traceparent[2:] + "-more"}, []string{"Traceparent: 01" + traceparent[2:] + "-more"}},
		{"a trace state without a trace", []string{"Tracestate: a=1"}, nil},
		{"a trace that is cut", []string{"Traceparent: " + traceparent[:54], "Tracestate: a=1"}, nil},
		{"a trace with more than its version has", []string{"Traceparent: " + traceparent + "-more"}, nil},
		{"a trace in capitals", []string{"Traceparent: " + strings.ToUpper(traceparent)}, nil},
		{"a trace of zeros", []string{"Traceparent: 00-00000000000000000000000000000000-b7ad6b7169203331-01"}, nil},
		{"a parent of zeros", []string{"Traceparent: 00-0af7651916cd43dd8448eb211c80319c-0000000000000000-01"}, nil},
		{"a trace of the version that is none", []string{"Traceparent: ff" + traceparent[2:]}, nil},
		{"a trace that is no hex", []string{"Traceparent: 00-0af7651916cd43dd8448eb211c80319z-b7ad6b7169203331-01"}, nil},
		{"a trace without dashes", []string{"Traceparent: " + strings.ReplaceAll(traceparent, "-", "0")}, nil},
		{"a routing key", []string{"X-Smg-Routing-Key: k1"}, []string{"X-Smg-Routing-Key: k1"}},
		{"the client's key", []string{"Authorization: Bearer abc"}, []string{"Authorization: Bearer abc"}},
		{"another scheme", []string{"Authorization: Basic eA=="}, []string{"Authorization: Basic eA=="}},
		{"what is too long for an engine", []string{"Authorization: " + long, "X-Smg-Routing-Key: " + long, "Traceparent: " + traceparent, "Tracestate: " + long}, []string{"Traceparent: " + traceparent}},
		{"another type and an encoding", []string{"Content-Type: application/vnd.x+json; charset=utf-8", "Content-Encoding: identity"}, nil},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			f := newServingFleet(t)

			if got := f.postWith(t, tt.sent...); got.status != 200 {
				t.Fatalf("answer = %d %s, want 200", got.status, got.body)
			}

			want := slices.Sorted(slices.Values(append(tt.want, own...)))
			for _, e := range []*engine{f.prefill, f.decode} {
				if got := lines(e.got()[0].header); !slices.Equal(got, want) {
					t.Errorf("leg's headers = %q, want %q", got, want)
				}
			}
		})
	}
}

// TestRoutingKeysUp: all headers that are configured reach the engines.
func TestRoutingKeysUp(t *testing.T) {
	f := newServingFleet(t, func(c *Config) { c.RoutingKeyHeaders = []string{"x-session-id", "x-smg-routing-key"} })

	f.postWith(t, "X-Smg-Routing-Key: k", "X-Session-Id: s", "X-User-Id: u")

	for _, e := range []*engine{f.prefill, f.decode} {
		h := e.got()[0].header
		if h.Get("X-Session-Id") != "s" || h.Get("X-Smg-Routing-Key") != "k" || h.Get("X-User-Id") != "" {
			t.Errorf("leg's headers = %q", lines(h))
		}
	}
}

// lines returns the headers, sorted, without the values that are new each time.
func lines(h http.Header) (out []string) {
	for name, values := range h {
		for _, v := range values {
			if name == "X-Request-Id" || name == "Content-Length" {
				out = append(out, name)
				continue
			}
			out = append(out, name+": "+v)
		}
	}
	slices.Sort(out)
	return out
}

// TestHostOfLegs is about the Host header, which a client must not choose.
func TestHostOfLegs(t *testing.T) {
	hosts := make(chan string, 2)
	note := then(func(_ http.ResponseWriter, r *http.Request) { hosts <- r.Host + r.RequestURI }, reply(200, chatAnswer))
	f := newFleet(t, "sglang", note, note)
	request := fmt.Sprintf("POST /v1/chat/completions?x=1#y HTTP/1.1\r\nHost: evil.example\r\nContent-Length: %d\r\n\r\n%s", len(chatRequest), chatRequest)

	if got, _ := f.exchangeRaw(t, request); got.status != 200 {
		t.Fatalf("answer = %d %s, want 200", got.status, got.body)
	}

	got := []string{<-hosts, <-hosts}
	for _, e := range []*engine{f.prefill, f.decode} {
		if want := strings.TrimPrefix(e.URL, "http://") + "/v1/chat/completions"; !slices.Contains(got, want) {
			t.Errorf("legs came to %q, want one to %s", got, want)
		}
	}
}

// TestRequestIDs is about the names of a request: the client's own is echoed if
// it is sane, the engines get another, the same on both legs (BUG-020).
func TestRequestIDs(t *testing.T) {
	minted := regexp.MustCompile(`^req-[A-Z0-9]{24}$`)
	tests := []struct {
		name string
		sent []string
		want string // empty: a new one
	}{
		{"none", nil, ""},
		{"a sane one", []string{"X-Request-Id: job-1"}, "job-1"},
		{"one under another name", []string{"X-Correlation-Id: job-2"}, "job-2"},
		{"the first name counts", []string{"X-Trace-Id: job-4", "X-Correlation-Id: job-3"}, "job-3"},
		{"an empty one", []string{"X-Request-Id: "}, ""},
		{"one with spaces", []string{"X-Request-Id: a b"}, ""},
		{"one that is not ASCII", []string{"X-Request-Id: ä"}, ""},
		{"one of 128 bytes", []string{"X-Request-Id: " + strings.Repeat("a", 128)}, strings.Repeat("a", 128)},
		{"one that is too long", []string{"X-Request-Id: " + strings.Repeat("a", 129)}, ""},
		{"an insane one before a sane one", []string{"X-Request-Id: a b", "Request-Id: job-5"}, "job-5"},
	}
	f := newServingFleet(t)
	seen := map[string]bool{}
	for i, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got := f.postWith(t, tt.sent...)

			id := got.header.Get("X-Request-Id")
			if tt.want == "" && !minted.MatchString(id) || tt.want != "" && id != tt.want {
				t.Errorf("the client gets %q, want %q or a new one", id, tt.want)
			}
			up := f.prefill.got()[i].header.Get("X-Request-Id")
			if down := f.decode.got()[i].header.Get("X-Request-Id"); up != down || up == "" || up == id || seen[up] {
				t.Errorf("the engines get %q and %q, want the same new one", up, down)
			}
			seen[up] = true
			wait(t, "the log", func() bool { return f.logs.Len() == i+1 })
			if logged := f.logs.All()[i].ContextMap()["request_id"]; logged != id {
				t.Errorf("the log says %v, want %q", logged, id)
			}
		})
	}
}

// TestOverlappingIDs is the other half of BUG-020: two requests of one name at
// the same time.
func TestOverlappingIDs(t *testing.T) {
	var both sync.WaitGroup
	both.Add(2)
	meet := then(func(http.ResponseWriter, *http.Request) { both.Done(); both.Wait() }, reply(200, chatAnswer))
	f := newFleet(t, "sglang", reply(200, chatAnswer), meet)
	var clients sync.WaitGroup
	for range 2 {
		clients.Go(func() {
			if got := f.postWith(t, "X-Request-Id: job-1"); got.header.Get("X-Request-Id") != "job-1" {
				t.Errorf("the client gets %q, want job-1", got.header.Get("X-Request-Id"))
			}
		})
	}
	clients.Wait()

	ids := map[string]int{}
	for _, l := range slices.Concat(f.prefill.got(), f.decode.got()) {
		ids[l.header.Get("X-Request-Id")]++
	}
	if len(ids) != 2 || ids["job-1"] != 0 {
		t.Errorf("ids of the legs = %v, want two, each on two legs", ids)
	}
}

// TestHeadersDown checks exactly what reaches the client of what an engine says.
func TestHeadersDown(t *testing.T) {
	engineHead := "X-Foo: 1\r\nX-Served-By: gpu-host-3\r\nX-Worker-Id: 7\r\nLocation: http://10.0.0.3/\r\nX-Backend-Url: http://10.0.0.3:30000\r\nX-Powered-By: engine\r\n" +
		"X-Ratelimit-Remaining-Requests: 3\r\nOpenai-Processing-Ms: 5\r\nOpenai-Model: m\r\n" +
		"Connection: Openai-Model, close\r\nKeep-Alive: timeout=5\r\nTrailer: X-Late\r\nUpgrade: h2c\r\nProxy-Authenticate: Basic\r\nDate: then\r\n" +
		"Server: uvicorn\r\nVia: 1.1 engine\r\nAlt-Svc: h3=\":443\"\r\nSet-Cookie: a=b\r\nStrict-Transport-Security: max-age=1\r\n" +
		"Access-Control-Allow-Origin: *\r\nAccess-Control-Allow-Credentials: true\r\nX-Request-Id: theirs\r\nVary: Accept\r\n"
	relayed := []string{"Openai-Processing-Ms: 5", "Vary: Accept", "X-Ratelimit-Remaining-Requests: 3", "X-Request-Id"}
	stream := []string{"Cache-Control: no-cache", "Content-Type: text/event-stream", "X-Accel-Buffering: no"}
	const text = "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n"
	const object = "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n"
	whole := tokenEvent(1) + doneEvent
	tests := []struct {
		name, request, answer string
		want                  []string // besides relayed
	}{
		{"a stream to the end of the connection", streamRequest, text + engineHead + "\r\n" + whole, stream},
		{"a stream of a length", streamRequest, text + engineHead + fmt.Sprintf("Content-Length: %d\r\n\r\n%s", len(whole), whole), stream},
		{"a stream in chunks", streamRequest, text + engineHead + "Transfer-Encoding: chunked\r\n\r\n" + strings.TrimSuffix(chunked(whole), "\r\n") + "X-Late: 1\r\n\r\n", stream},
		{
			"a stream with an opinion on caches", streamRequest, text + "X-Accel-Buffering: yes\r\nCache-Control: no-store\r\n" + engineHead + "\r\n" + whole,
			[]string{"Cache-Control: no-store", "Content-Type: text/event-stream", "X-Accel-Buffering: yes"},
		},
		{"JSON of a length", chatRequest, object + engineHead + fmt.Sprintf("Content-Length: %d\r\n\r\n%s", len(chatAnswer), chatAnswer), []string{"Content-Length", "Content-Type: application/json"}},
		{"JSON in chunks", chatRequest, object + engineHead + "Transfer-Encoding: chunked\r\n\r\n" + chunked(chatAnswer), []string{"Content-Length", "Content-Type: application/json"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			f := newFleet(t, "sglang", reply(200, chatAnswer), raw(tt.answer))

			got := f.post(t, "/v1/chat/completions", tt.request)

			got.header.Del("Date") // net/http's own, and that it is not the engine's:
			if got.err != nil || got.status != 200 {
				t.Fatalf("answer = %d %s (%v), want 200", got.status, got.body, got.err)
			}
			got.header.Del("Connection") // the client asked for it
			want := slices.Sorted(slices.Values(slices.Concat(tt.want, relayed)))
			if have := lines(got.header); !slices.Equal(have, want) {
				t.Errorf("headers = %q, want %q", have, want)
			}
			if id := got.header.Get("X-Request-Id"); id == "theirs" {
				t.Error("the client gets the engine's id")
			}
		})
	}
}

// TestHeadersOfEngineErrors is about the head of what an engine refuses.
func TestHeadersOfEngineErrors(t *testing.T) {
	refuse := func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Retry-After", "7")
		w.Header().Set("Set-Cookie", "a=b")
		w.Header().Set("X-Foo", "1")
		reply(429, `{"error":{"message":"slow down","type":"x","param":null,"code":429}}`)(w, r)
	}
	f := newFleet(t, "sglang", refuse, hang)

	got := f.post(t, "/v1/chat/completions", chatRequest)

	got.header.Del("Date")
	got.header.Del("Connection")
	want := []string{"Content-Length", "Content-Type: application/json", "Retry-After: 7", "X-Request-Id", "X-Smg-Error-Code: prefill_upstream_error"}
	if have := lines(got.header); got.status != 429 || !slices.Equal(have, want) {
		t.Errorf("answer = %d with %q, want 429 with %q", got.status, have, want)
	}
}

// TestCORS is about browsers, and that engines do not decide which.
func TestCORS(t *testing.T) {
	decode := func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Access-Control-Allow-Origin", "*")
		w.Header().Set("Vary", "Accept")
		reply(200, chatAnswer)(w, r)
	}
	f := newFleet(t, "sglang", reply(200, chatAnswer), decode, func(c *Config) {
		c.CORSOrigins, c.APIKeys = []string{"https://good.example"}, keys.Of("k")
	})
	tests := []struct{ origin, want string }{{"https://good.example", "https://good.example"}, {"https://evil.example", ""}}
	for _, tt := range tests {
		got := f.postWith(t, "Origin: "+tt.origin, "Authorization: Bearer k")
		if have := got.header.Get("Access-Control-Allow-Origin"); got.status != 200 || have != tt.want {
			t.Errorf("%s: answer = %d allowing %q, want 200 allowing %q", tt.origin, got.status, have, tt.want)
		}
		if vary := strings.Join(got.header.Values("Vary"), ","); vary != "Origin,Accept" {
			t.Errorf("%s: Vary = %q, want both the engine's and our own", tt.origin, vary)
		}
		denied := f.postWith(t, "Origin: "+tt.origin)
		if have := denied.header.Get("Access-Control-Allow-Origin"); denied.status != 401 || have != tt.want {
			t.Errorf("%s without a key: answer = %d allowing %q, want 401 allowing %q", tt.origin, denied.status, have, tt.want)
		}
		got, _ = f.exchangeRaw(t, "OPTIONS /v1/chat/completions HTTP/1.1\r\nHost: h\r\nOrigin: "+tt.origin+"\r\nAccess-Control-Request-Method: POST\r\n\r\n")
		if have := got.header.Get("Access-Control-Allow-Origin"); got.status != 200 || have != tt.want {
			t.Errorf("%s: preflight = %d allowing %q, want 200 allowing %q", tt.origin, got.status, have, tt.want)
		}
	}
}

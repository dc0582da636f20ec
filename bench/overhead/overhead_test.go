package main

import (
	"bytes"
	"context"
	"encoding/json"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"
)

// startFleet runs an engine of either role until the test ends.
func startFleet(t *testing.T, dialect string) (f *fleet, prefills, decodes []string) {
	t.Helper()
	ctx, stop := context.WithCancel(context.Background())
	f = newFleet(dialect)
	ended := make(chan error, 2)
	var addrs []string
	for _, role := range []string{prefill, decode} {
		ln, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		addrs = append(addrs, ln.Addr().String())
		go func() { ended <- f.serve(ctx, ln, role) }()
	}
	t.Cleanup(func() {
		stop()
		for range 2 {
			if err := <-ended; err != nil {
				t.Error(err)
			}
		}
	})
	return f, addrs[:1], addrs[1:]
}

func TestBaselines(t *testing.T) {
	for _, c := range []struct {
		name, dialect, system string
		want                  counts
	}{
		{"the floor sends two legs to SGLang", sglang, floor, counts{Prefill: 40, Decode: 40}},
		{"the bare floor sends two legs to SGLang", sglang, pooled, counts{Prefill: 40, Decode: 40}},
		{"the two-leg proxy sends two legs to SGLang", sglang, twoLeg, counts{Prefill: 40, Decode: 40}},
		{"the two-leg proxy sends two legs to vLLM", vllmNIXL, twoLeg, counts{Prefill: 40, Decode: 40}},
		{"the one-leg proxy hands nothing off", sglang, oneLeg, counts{Plain: 40}},
	} {
		t.Run(c.name, func(t *testing.T) {
			f, prefills, decodes := startFleet(t, c.dialect)
			handler, err := newBaseline(c.system, c.dialect, prefills, decodes)
			if err != nil {
				t.Fatal(err)
			}
			srv := httptest.NewServer(handler)
			for _, name := range []string{"1kb", "stream"} {
				sendLoad(t, strings.TrimPrefix(srv.URL, "http://"), name, 20)
			}
			srv.Close() // waits for the requests, whose prefill legs may be under way
			if got := (counts{f.legs[0].Load(), f.legs[1].Load(), f.unhanded.Load()}); got != c.want {
				t.Errorf("legs = %+v, want %+v", got, c.want)
			}
		})
	}
}

func sendLoad(t *testing.T, addr, name string, n int) {
	t.Helper()
	w, err := findWorkload(name)
	if err != nil {
		t.Fatal(err)
	}
	l, err := newLoad(t.Context(), addr, w, 4)
	if err != nil {
		t.Fatal(err)
	}
	defer l.close()
	took, err := l.run(func(sent int) bool { return sent < n })
	if err != nil {
		t.Fatal(err)
	}
	if len(took) != n {
		t.Errorf("%s: %d requests were timed, want %d", name, len(took), n)
	}
}

func TestAnswerThatIsTooShortIsAnError(t *testing.T) {
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = w.Write([]byte("{}"))
	}))
	defer srv.Close()
	l, err := newLoad(t.Context(), strings.TrimPrefix(srv.URL, "http://"), workloads()[0], 1)
	if err != nil {
		t.Fatal(err)
	}
	defer l.close()
	if _, err := l.run(func(sent int) bool { return sent < 1 }); err == nil || !strings.Contains(err.Error(), "answer has 2 bytes") {
		t.Errorf("run = %v, want a complaint about 2 bytes", err)
	}
}

func TestRequestIsJSONWithAPromptOfItsSize(t *testing.T) {
	for _, w := range workloads() {
		_, body, _ := bytes.Cut(w.request("host", 7), []byte("\r\n\r\n"))
		if !json.Valid(body) {
			t.Errorf("%s: the body is no JSON: %.200s", w.name, body)
		}
		if n := len(prose(w.prompt, 7)); n != w.prompt {
			t.Errorf("%s: the prompt has %d bytes, want %d", w.name, n, w.prompt)
		}
		if got := naming(body[:256]); got != w.name {
			t.Errorf("naming = %q, want %q", got, w.name)
		}
	}
}

func TestReport(t *testing.T) {
	r := report{opts: options{dialect: sglang, concurrency: 16, rounds: 3, streams: 1000}}
	ms := time.Millisecond
	for _, cpu := range []time.Duration{30 * ms, 10 * ms, 20 * ms} {
		r.add(router, workloads()[0], sample{requests: 100, elapsed: time.Second, cpu: cpu})
		r.add(twoLeg, workloads()[0], sample{requests: 100, elapsed: time.Second, cpu: 50 * ms})
		r.add(pooled, workloads()[0], sample{requests: 100, elapsed: time.Second, cpu: 16 * ms})
	}
	r.add(router, workload{name: held}, sample{requests: 1000, elapsed: time.Second, rss: 40 << 20, peak: 65 << 20})

	got := r.results()[0]
	if got.System != router || got.CPU != 200 || got.Ratios[twoLeg] != 0.4 || got.Requests != 300 {
		t.Errorf("result = %+v, want the router with the median of 200 us, 0.4 of two-leg", got)
	}
	goals := strings.Join(r.goals(), "\n")
	want := "reached: 1kb: 1.25 of the bare floor's CPU, at most 1.40 wanted\n" +
		"missed:  1000 open streams: 65.0 MB RSS at the most, less than 64 MB wanted"
	if goals != want {
		t.Errorf("goals =\n%s\nwant\n%s", goals, want)
	}
	var table bytes.Buffer
	if err := r.writeTable(&table); err != nil || !strings.Contains(table.String(), "x0.40") {
		t.Errorf("table = %v\n%s", err, table.String())
	}
}

func TestOptionsNameTheFlagAtFault(t *testing.T) {
	for _, c := range []struct{ args, want string }{
		{"-dialect nixl", `-dialect "nixl"`},
		{"-only 2kb", `-only "2kb"`},
		{"-n 0", "-n, -c"},
		{"more", `unexpected argument "more"`},
	} {
		if _, err := parseOptions(strings.Fields(c.args)); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("parseOptions(%s) = %v, want %s in it", c.args, err, c.want)
		}
	}
	o, err := parseOptions(strings.Fields("-only router,two-leg,1kb"))
	if err != nil || len(o.systems()) != 2 || !o.wantsWorkload(workloads()[0]) || o.wantsWorkload(workloads()[1]) {
		t.Errorf("parseOptions = %+v, %v, want two systems and one workload", o, err)
	}
}

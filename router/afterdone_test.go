package router

import (
	"context"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"
)

// What ends an attempt after its client has had [DONE] is not for the client,
// nor does it make the answer a failed one.
func TestNothingFollowsDone(t *testing.T) {
	t.Run("when the daemon is stopped while the engine has not ended its body", func(t *testing.T) {
		f := newFleet(t, "vllm-nixl", reply(200, `{"choices":[],`+handOff+`}`), then(events(roleEvent, tokenEvent(1), finishEvent, doneEvent), hang))
		base, cut := context.WithCancelCause(context.Background())
		srv := httptest.NewUnstartedServer(f.handler)
		srv.Config.BaseContext = func(net.Listener) context.Context { return base }
		srv.Start()
		defer srv.Close()
		wantNothingAfterDone(t, f, srv.URL, func() { cut(ErrDrained) })
	})
	t.Run("when prefill fails after a late verdict was not waited for", func(t *testing.T) {
		fail := make(chan struct{})
		f := newFleet(t, "sglang", func(w http.ResponseWriter, r *http.Request) {
			<-fail
			reply(500, `{"message":"lost"}`)(w, r)
		}, func(w http.ResponseWriter, r *http.Request) {
			events(roleEvent, tokenEvent(1))(w, r)
			timer := time.NewTimer(maxWait + maxWait/4) // until the gate opens without a verdict
			defer timer.Stop()
			<-timer.C
			events(finishEvent, doneEvent)(w, r)
		})
		wantNothingAfterDone(t, f, f.URL, func() { close(fail) })
	})
}

func wantNothingAfterDone(t *testing.T, f *fleet, url string, then func()) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url+"/v1/chat/completions", strings.NewReader(streamRequest))
	if err != nil {
		t.Fatal(err)
	}
	resp, err := (&http.Client{Transport: &http.Transport{DisableKeepAlives: true}}).Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	got := ""
	for buf := make([]byte, 512); !strings.HasSuffix(got, doneEvent); {
		n, err := resp.Body.Read(buf)
		if got += string(buf[:n]); err != nil {
			t.Fatalf("the stream ended with %v after %q", err, got)
		}
	}
	then()
	if rest, err := io.ReadAll(resp.Body); err != nil || len(rest) > 0 {
		t.Errorf("after [DONE] came %q, %v", rest, err)
	}
	wait(t, "the request to be counted", func() bool { return len(f.handler.Ages()) == 0 })
	if n := f.value(t, "pdrouter_answer_ends_total", map[string]string{"end": "complete"}); n != 1 {
		t.Errorf("%v answers were counted as complete, want 1", n)
	}
}

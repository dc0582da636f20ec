package router

import (
	"fmt"
	"net/http"
	"slices"
	"sync"
	"testing"

	"pdrouter/workers"
)

// A trace is a Judge that permits everything and keeps what it is told.
type trace struct {
	mu    sync.Mutex
	lines []string
}

func (j *trace) note(line string) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.lines = append(j.lines, line)
}

func (j *trace) told() []string {
	j.mu.Lock()
	defer j.mu.Unlock()
	return slices.Sorted(slices.Values(j.lines))
}

func (j *trace) Permit(*workers.Permit, *workers.Worker, *workers.Worker) bool { return true }
func (j *trace) Began(*workers.Permit)                                         { j.note("began") }
func (j *trace) Ended(_ *workers.Permit, role workers.Role, err error) {
	j.note(fmt.Sprintf("%s: %v", role, err))
}
func (j *trace) Reported(*workers.Worker, workers.Report, workers.Report, error) {}

const prefillReply = `{"choices":[],` + handOff + `}`

// TestBegan: the judge learns of a stream's first token when it comes, and of
// no token where there is none.
func TestBegan(t *testing.T) {
	more := make(chan struct{})
	release := sync.OnceFunc(func() { close(more) })
	defer release()
	f := newFleet(t, "vllm-nixl", reply(200, prefillReply), then(
		events(roleEvent, `data: {"choices":[{"index":0,"delta":{"content":"Hello."},"finish_reason":null}]}`+"\n\n"),
		func(http.ResponseWriter, *http.Request) { <-more }, events(finishEvent, doneEvent),
	))
	judge := &trace{}
	f.registry.SetJudge(judge)
	ended := make(chan answer, 1)
	go func() { ended <- f.post(t, "/v1/chat/completions", streamRequest) }()
	wait(t, "the first token to be told", func() bool { return slices.Contains(judge.told(), "began") })
	if slices.Contains(judge.told(), "decode: <nil>") {
		t.Error("the leg has ended already")
	}
	release()
	if got := <-ended; got.status != 200 {
		t.Errorf("answer = %d %s", got.status, got.body)
	}
	if want := []string{"began", "decode: <nil>", "prefill: <nil>"}; !slices.Equal(judge.told(), want) {
		t.Errorf("the judge was told %q, want %q", judge.told(), want)
	}
}

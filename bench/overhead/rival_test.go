package main

import (
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"
)

func TestEnginesKnowABodyThatWasMadeAnew(t *testing.T) {
	for name, body := range map[string]string{
		"with the user":    `{"bootstrap_room":7,"messages":[{"content":"stream 003 a","role":"user"}],"user":"stream"}`,
		"without the user": `{"bootstrap_room":7,"messages":[{"role":"user","content":"stream 003 a"}]}`,
	} {
		if got := naming([]byte(body)); got != "stream" {
			t.Errorf("%s: naming = %q, want the workload", name, got)
		}
	}
}

func TestRequestsAtARateAreSentAndTimed(t *testing.T) {
	_, _, decodes := startFleet(t, sglang)
	w, err := findWorkload(steady)
	if err != nil {
		t.Fatal(err)
	}
	l, err := newLoad(t.Context(), decodes[0], w, 4)
	if err != nil {
		t.Fatal(err)
	}
	defer l.close()
	took, err := l.runAt(t.Context(), 100, time.Second)
	if err != nil {
		t.Fatal(err)
	}
	ttft, _ := l.quantiles()
	if len(took) == 0 || len(took) > 101 || ttft[0] <= 0 || ttft[1] < ttft[0] {
		t.Errorf("%d requests, TTFT %v, want a hundred at most, and times", len(took), ttft)
	}
}

func TestTreeHasChildrenAndIsKilled(t *testing.T) {
	cat, err := exec.LookPath("cat")
	if err != nil {
		t.Skip("no cat")
	}
	// The shell stays, for it has another command to run.
	p, err := start(t.Context(), t.TempDir(), "/bin/sh", "-c", cat+" /dev/zero > /dev/null; true")
	if err != nil {
		t.Fatal(err)
	}
	p.stranger = true
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for range 2000 {
		cpu, err := p.cpu()
		if err == nil && cpu > 0 && len(p.tree()) > 1 {
			break
		}
		<-tick.C
	}
	if now, peak, err := p.memory(); len(p.tree()) < 2 || now == 0 || peak < now || err != nil {
		t.Errorf("tree = %v, memory %d, at most %d, %v, want a child and its memory", p.tree(), now, peak, err)
	}
	all := p.tree()
	p.stop()
	for range 2000 {
		if !slices.ContainsFunc(all, runs) {
			return
		}
		<-tick.C
	}
	t.Errorf("some of %v still run", all)
}

// runs reports whether a process runs: not if it waits to be forgotten.
func runs(pid int) bool {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	return err == nil && !strings.Contains(string(text), ") Z ")
}

func TestRivalsAreRunOnlyIfTheyAreThere(t *testing.T) {
	for args, want := range map[string]string{
		"":                             "router floor two-leg one-leg",
		"-rivals x":                    "router floor two-leg one-leg sglang-router smg",
		"-rivals x -dialect vllm-nixl": "router two-leg one-leg vllm-router",
	} {
		o, err := parseOptions(strings.Fields(args))
		if err != nil {
			t.Fatal(err)
		}
		got := strings.Join(o.systems(), " ")
		if strings.ReplaceAll(got, "pooled ", "") != want {
			t.Errorf("%q: systems = %s, want %s", args, got, want)
		}
	}
}

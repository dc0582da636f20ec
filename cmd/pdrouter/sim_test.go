package main

import (
	"bufio"
	"context"
	"io"
	"net/http"
	"os"
	"os/exec"
	"reflect"
	"strings"
	"syscall"
	"testing"
	"time"

	"pdrouter/sim"
)

// startSim starts pdrouter sim as a process, and returns it with the first word
// that it prints. It is killed if the test does not end it.
func startSim(t *testing.T, args ...string) (p *exec.Cmd, url string, complaints *strings.Builder) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	t.Cleanup(cancel)
	complaints = new(strings.Builder)
	p = exec.CommandContext(ctx, "pdrouter", append([]string{"sim"}, args...)...) // this test binary
	p.Stderr = complaints
	p.Env = append(os.Environ(), "GORACE=atexit_sleep_ms=0") // else -race adds a second
	out, err := p.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := p.Start(); err != nil {
		t.Fatal(err)
	}
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		_ = p.Wait()
		t.Fatalf("sim %q printed %q: %v\n%s", args, line, err, complaints)
	}
	url, _, _ = strings.Cut(line, " ")
	return p, url, complaints
}

// request sends one request on a connection of its own, and returns the answer.
func request(t *testing.T, method, url, key, body string) (status int, answer string, err error) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	req.Close = true
	req.Header.Set("Authorization", "Bearer "+key)
	resp, err := (&http.Client{Transport: &http.Transport{}}).Do(req)
	if err != nil {
		return 0, "", err
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	return resp.StatusCode, string(b), err
}

// terminate ends a process with SIGTERM, and wants status 0 of it.
func terminate(t *testing.T, p *exec.Cmd) {
	t.Helper()
	if err := p.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if err := p.Wait(); err != nil {
		t.Errorf("after SIGTERM: %v", err)
	}
}

func TestSimIsAnEngine(t *testing.T) {
	for _, dialect := range []string{"sglang", "vllm-nixl"} {
		for _, role := range []string{"prefill", "decode"} {
			t.Run(dialect+" "+role, func(t *testing.T) {
				p, url, _ := startSim(t, "--dialect", dialect, "--role", role)
				if status, _, err := request(t, "GET", url+"/health", "", ""); status != 200 || err != nil {
					t.Errorf("/health = %d, %v", status, err)
				}
				terminate(t, p)
			})
		}
	}
}

func TestSimDoesAsTold(t *testing.T) {
	p, url, complaints := startSim(t, "--dialect", "vllm-nixl", "--role", "decode", "--model", "mine", "--api-key", "secret",
		"--fail", "status,status=418,nth=2,count=1", "--fail", "reset,path=/health", "--decode-us-per-token", "20000")
	body := `{"model":"mine","prompt":"hello","max_tokens":6}`
	began := time.Now()
	status, answer, err := request(t, "POST", url+"/v1/completions", "secret", body)
	want, _ := sim.Expect("/v1/completions", []byte(body))
	if status != 200 || err != nil || !strings.Contains(answer, `"`+want[0]+`"`) {
		t.Errorf("first answer = %d %s, %v, want one with %q", status, answer, err, want)
	}
	if took := time.Since(began); took < 100*time.Millisecond {
		t.Errorf("six tokens took %v, which take 20 ms each", took)
	}
	if status, _, _ := request(t, "POST", url+"/v1/completions", "secret", body); status != 418 {
		t.Errorf("second answer = %d, want the fault's 418", status)
	}
	if status, _, _ := request(t, "POST", url+"/v1/completions", "secret", body); status != 200 {
		t.Errorf("third answer = %d, want 200", status)
	}
	if status, _, _ := request(t, "POST", url+"/v1/completions", "wrong", body); status != 401 {
		t.Errorf("answer to a wrong key = %d, want 401", status)
	}
	if _, _, err := request(t, "GET", url+"/health", "", ""); err == nil {
		t.Error("/health was answered, which was to be reset")
	}
	// Misuse is answered as a real engine does, and told at once.
	kv := `,"kv_transfer_params":{"do_remote_prefill":true,"remote_block_ids":[1]},"kv_transfer_params":{}}`
	if status, _, _ := request(t, "POST", url+"/v1/completions", "secret", strings.TrimSuffix(body, "}")+kv); status != 200 {
		t.Errorf("answer to a key that comes twice = %d, want 200", status)
	}
	terminate(t, p)
	if got, want := complaints.String(), "violation: "+sim.DuplicateKey+"\n"; got != want {
		t.Errorf("it said %q, want %q", got, want)
	}
}

func TestParseFault(t *testing.T) {
	tests := []struct {
		text string
		want sim.Fault
		err  string
	}{
		{"reset", sim.Fault{Kind: sim.FaultReset}, ""},
		{"die,tokens=5,nth=3,count=1", sim.Fault{Kind: sim.FaultDie, Tokens: 5, Nth: 3, Count: 1}, ""},
		{"status,status=503,path=/health", sim.Fault{Kind: sim.FaultStatus, Status: 503, Path: "/health"}, ""},
		{"slow,delay=20ms", sim.Fault{Kind: sim.FaultSlow, Delay: 20 * time.Millisecond}, ""},
		{"comments,comments=2", sim.Fault{Kind: sim.FaultComments, Comments: 2}, ""},
		{"explode", sim.Fault{}, `"explode" is no way to fail; known are `},
		{"", sim.Fault{}, `"" is no way to fail`},
		{"die,tokens", sim.Fault{}, `"tokens" is not key=value`},
		{"die,tokens=-1", sim.Fault{}, `tokens: "-1" is not a number`},
		{"die,token=1", sim.Fault{}, `"token" is unknown; known are `},
		{"slow,delay=20", sim.Fault{}, `delay: `},
		{"status,status=99", sim.Fault{}, "status: 99 is not between 200 and 599"},
	}
	for _, tt := range tests {
		got, err := parseFault(tt.text)
		switch {
		case tt.err == "" && (err != nil || !reflect.DeepEqual(got, tt.want)):
			t.Errorf("parseFault(%q) = %+v, %v, want %+v", tt.text, got, err, tt.want)
		case tt.err != "" && (err == nil || !strings.Contains(err.Error(), tt.err)):
			t.Errorf("parseFault(%q) = %v, want an error with %q", tt.text, err, tt.err)
		}
	}
	for _, kind := range faultKinds() {
		if _, err := parseFault(kind); err != nil {
			t.Errorf("parseFault(%q): %v", kind, err)
		}
	}
}

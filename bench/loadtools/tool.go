package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"
)

// grace is how long a tool may take beside the time in which it sends.
const grace = 3 * time.Minute

// A tool is a load tool from PyPI, in a virtual environment of its name.
type tool struct {
	name string

	// args are how it is called; out is a folder for its report.
	args func(order runOrder) []string

	// offline is whether it is told that there is no model hub. aiperf takes a
	// folder for a tokenizer only if it is not told.
	offline bool

	report string // path of its report in out
	read   func([]byte) (figures, error)
}

// A runOrder is what a tool is to do.
type runOrder struct {
	url, tokenizer, out string
	seconds             int
}

// tools are the tools that are tried.
func tools() []tool {
	return []tool{
		{"aiperf", aiperfArgs, false, "profile_export_aiperf.json", readAIPerf},
		{"guidellm", guidellmArgs, true, "guidellm.json", readGuideLLM},
		{"inference-perf", inferencePerfArgs, true, "summary_lifecycle_metrics.json", readInferencePerf},
	}
}

func aiperfArgs(o runOrder) []string {
	return []string{
		"profile", "--model", "sim-model", "--url", o.url, "--endpoint-type", "chat", "--streaming",
		"--tokenizer", o.tokenizer, "--use-server-token-count", "--extra-inputs", "ignore_eos:true",
		"--isl", fmt.Sprint(promptTokens), "--osl", fmt.Sprint(answerTokens), "--num-dataset-entries", "200",
		"--concurrency", "2", "--benchmark-duration", fmt.Sprint(o.seconds), "--output-artifact-dir", o.out, "--ui", "none",
	}
}

func guidellmArgs(o runOrder) []string {
	return []string{
		"run", "--backend", "kind=openai_http,target=" + o.url + ",model=sim-model",
		"--tokenizer", "kind=huggingface_auto,model=" + o.tokenizer,
		"--data", fmt.Sprintf("kind=synthetic_text,prompt_tokens=%d,output_tokens=%d", promptTokens, answerTokens),
		"--profile", "kind=concurrent,streams=2", "--constraint", fmt.Sprintf("kind=max_duration,seconds=%d", o.seconds),
		"--output", "kind=json,path=" + filepath.Join(o.out, "guidellm.json"), "--disable-console-interactive",
	}
}

func inferencePerfArgs(o runOrder) []string {
	length := func(data string, n int) []string {
		var args []string
		for _, key := range []string{"min", "max", "mean"} {
			args = append(args, fmt.Sprintf("--data.%s_distribution.%s", data, key), fmt.Sprint(n))
		}
		return append(args, fmt.Sprintf("--data.%s_distribution.std_dev", data), "0")
	}
	args := []string{
		"--server.type", "vllm", "--server.model_name", "sim-model", "--server.base_url", o.url, "--server.ignore_eos", "true",
		"--api.type", "completion", "--api.streaming", "true", "--tokenizer.pretrained_model_name_or_path", o.tokenizer,
		"--data.type", "random", "--load.type", "constant", "--load.num_workers", "1",
		"--load.stages", fmt.Sprintf(`[{"rate":1.5,"duration":%d}]`, o.seconds),
		"--report.request_lifecycle.use_server_output_tokens", "true", "--storage.local_storage.path", o.out,
	}
	return append(append(args, length("input", promptTokens)...), length("output", answerTokens)...)
}

// measure runs the tool, and returns what it should have measured and what it
// has.
func (t tool) measure(ctx context.Context, f *fleet, dir string, duration time.Duration) (told, got figures, err error) {
	dir, err = filepath.Abs(dir)
	if err != nil {
		return told, got, err
	}
	out, err := os.MkdirTemp("", "loadtools-")
	if err != nil {
		return told, got, err
	}
	defer os.RemoveAll(out)
	before, tokensBefore := f.prompts()
	ctx, cancel := context.WithTimeout(ctx, duration+grace)
	defer cancel()
	cmd := exec.CommandContext(ctx, filepath.Join(dir, t.name, "bin", t.name),
		t.args(runOrder{f.url, filepath.Join(dir, "tokenizer"), out, int(duration.Seconds())})...)
	cmd.Dir = out
	cmd.Env = append(os.Environ(), "HF_HUB_DISABLE_TELEMETRY=1")
	if t.offline {
		cmd.Env = append(cmd.Env, "HF_HUB_OFFLINE=1")
	}
	if said, err := cmd.CombinedOutput(); err != nil {
		return told, got, fmt.Errorf("%w\n%s", err, tail(said))
	}
	text, err := os.ReadFile(filepath.Join(out, t.report))
	if err != nil {
		return told, got, err
	}
	n, tokens := f.prompts()
	if n == before {
		return told, got, errors.New("no request has reached an engine")
	}
	got, err = t.read(text)
	return tell(f.dialect, int(n-before), float64(tokens-tokensBefore)/float64(n-before)), got, err
}

// tail returns the end of what a program said.
func tail(said []byte) []byte {
	lines := bytes.Split(bytes.TrimSpace(said), []byte("\n"))
	return bytes.Join(lines[max(len(lines)-30, 0):], []byte("\n"))
}

// version returns the version that is installed, as its list of packages has it.
func (t tool) version(dir string) string {
	text, _ := os.ReadFile(filepath.Join(dir, t.name, "ok")) // without it the version is not known
	for line := range strings.Lines(string(text)) {
		if v, is := strings.CutPrefix(line, t.name+"=="); is {
			return strings.TrimSpace(v)
		}
	}
	return "?"
}

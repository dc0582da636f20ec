package sim

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

func TestSGLangInfoAsCaptured(t *testing.T) {
	p := newPair(t, SGLang, func(c *Config) {
		c.Model, c.BlockSize, c.KVTokens, c.ContextLength, c.MaxRunning = "smollm2", 1, 8192, 2048, 16
	})
	tests := map[string]struct {
		e    *Engine
		path string
	}{
		"decode_GET_get_load.http":   {p.decode, "/get_load"},
		"decode_GET_model_info.http": {p.decode, "/model_info"},
		"decode_GET_v1_loads.http":   {p.decode, "/v1/loads"},
		"decode_GET_v1_models.http":  {p.decode, "/v1/models"},
		"server_info.prefill.http":   {p.prefill, "/server_info"},
		"server_info.decode.http":    {p.decode, "/get_server_info"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			raw, err := os.ReadFile(filepath.Join("testdata/captures/sglang", name))
			if err != nil {
				t.Fatal(err)
			}
			raw = bytes.TrimSuffix(raw, []byte("\n"))
			want, err := http.ReadResponse(bufio.NewReader(bytes.NewReader(raw)), nil)
			if err != nil {
				t.Fatal(err)
			}
			defer want.Body.Close()
			wantBody, _ := io.ReadAll(want.Body)
			got := get(tt.e, tt.path)
			if got.status != want.StatusCode {
				t.Errorf("answer is %d, want %d", got.status, want.StatusCode)
			}
			sameHeaders(t, got.header, slices.Collect(maps.Keys(want.Header)))
			g, w := shape(t, json.RawMessage(got.body)), shape(t, wantBody)
			if strings.HasPrefix(name, "server_info") {
				// Roles differ in what does not concern us, as null or not.
				g, w = keysOnly(g), keysOnly(w)
			}
			if g != w {
				t.Errorf("body is shaped\n %s\nwant\n %s", g, w)
			}
		})
	}
}

// keysOnly leaves types out of a shape.
func keysOnly(shape string) string {
	return regexp.MustCompile(`:(string|int|float|bool|<nil>|"[^"]*"|-?[0-9.]+)`).ReplaceAllString(shape, "")
}

func TestBootstrapServerAsCaptured(t *testing.T) {
	p := newPair(t, SGLang, func(c *Config) { c.BlockSize = 1 })
	raw, err := os.ReadFile("testdata/captures/sglang/bootstrap_http.txt")
	if err != nil {
		t.Fatal(err)
	}
	for exchange := range strings.SplitSeq(strings.ReplaceAll(string(raw), "\r", ""), "### ") {
		if exchange == "" {
			continue
		}
		request, want, _ := strings.Cut(exchange, "\n")
		t.Run(request, func(t *testing.T) {
			parts := strings.SplitN(request, " ", 3)
			var in io.Reader
			if len(parts) == 3 {
				in = strings.NewReader(parts[2])
			}
			req, err := http.NewRequest(parts[0], "http://"+p.prefill.side.Addr().String()+parts[1], in)
			if err != nil {
				t.Fatal(err)
			}
			got := do(req)
			head, wantBody, _ := strings.Cut(strings.TrimRight(want, "\n"), "\n\n")
			var b strings.Builder
			fmt.Fprintf(&b, "HTTP/1.1 %d %s", got.status, http.StatusText(got.status))
			for _, key := range []string{"Content-Type", "Content-Length", "Date", "Server"} {
				fmt.Fprintf(&b, "\n%s: %s", key, got.header.Get(key))
			}
			if g, w := varying(b.String()), varying(head); g != w {
				t.Errorf("head is\n%s\nwant\n%s", g, w)
			}
			if g, w := varying(got.body), varying(wantBody); g != w {
				t.Errorf("body is\n%s\nwant\n%s", g, w)
			}
		})
	}
}

// varying leaves out what differs by time, port and address.
func varying(s string) string {
	s = regexp.MustCompile(`Date: .*`).ReplaceAllString(s, "Date")
	s = regexp.MustCompile(`(_port": )\d+`).ReplaceAllString(s, "$1")
	s = regexp.MustCompile(`(rank_ip": ")[^"]*`).ReplaceAllString(s, "$1")
	return regexp.MustCompile(`Content-Length: (4\d\d|4[0-9])\b`).ReplaceAllString(s, "Content-Length")
}

func TestMetricsAreNamedAsCaptured(t *testing.T) {
	for _, dialect := range []string{SGLang, VLLMNixl} {
		p := newPair(t, dialect, func(c *Config) { c.Model = "smollm2" })
		for _, e := range []*Engine{p.prefill, p.decode} {
			t.Run(dialect+" "+e.cfg.Role, func(t *testing.T) {
				folder := strings.TrimSuffix(dialect, "-nixl")
				raw, err := os.ReadFile(fmt.Sprintf("testdata/captures/%s/metrics.%s.txt", folder, e.cfg.Role))
				if err != nil {
					t.Fatal(err)
				}
				want := readPage(string(raw))
				for name, got := range readPage(get(e, "/metrics").must(t).body) {
					compareFamily(t, name, got, want[name])
				}
			})
		}
	}
}

// notCaptured are families which the engines have, but the captured ones had
// not come to yet.
func notCaptured(name string) bool {
	return slices.Contains([]string{"sglang:num_retracted_requests_total", "sglang:num_bootstrap_failed_reqs_total"}, name)
}

func compareFamily(t *testing.T, name string, got, want family) {
	t.Helper()
	switch {
	case want.kind == "" && notCaptured(name):
	case want.kind == "":
		t.Errorf("family %s is not one of the real engine's", name)
	case got.kind != want.kind:
		t.Errorf("family %s is a %s, want %s", name, got.kind, want.kind)
	case name == "vllm:cache_config_info":
		for label := range strings.SplitSeq(got.labels, ",") {
			if !strings.Contains(","+want.labels+",", ","+label+",") {
				t.Errorf("family %s has label %s", name, label)
			}
		}
	case got.labels != want.labels:
		t.Errorf("family %s has labels %s, want %s", name, got.labels, want.labels)
	}
}

// A family is its type and the names of its labels.
type family struct{ kind, labels string }

func readPage(page string) map[string]family {
	families := map[string]family{}
	var current string
	for line := range strings.Lines(page) {
		line = strings.TrimSpace(line)
		if rest, ok := strings.CutPrefix(line, "# TYPE "); ok {
			name, kind, _ := strings.Cut(rest, " ")
			current = name
			families[name] = family{kind: kind}
			continue
		}
		f := families[current]
		if f.labels == "" && strings.Contains(line, "{") {
			var names []string
			for _, m := range regexp.MustCompile(`([a-z_]+)="`).FindAllStringSubmatch(line, -1) {
				if m[1] != "le" && m[1] != "pid" {
					names = append(names, m[1])
				}
			}
			f.labels = strings.Join(names, ",")
			families[current] = f
		}
	}
	return families
}

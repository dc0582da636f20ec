package workers

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"slices"
	"strings"
	"testing"
	"testing/iotest"
)

const page = `# HELP a Not a{x="1"} 7
# TYPE a gauge
a{dp_rank="0",tp_rank="0"} 1.5
`

func TestScan(t *testing.T) {
	a := source{names: []string{"a"}}
	nan := math.NaN()
	tests := []struct {
		name string
		page string
		of   source
		want float64
	}{
		{"a gauge", page, a, 1.5},
		{"a sample without labels", "a 2\n", a, 2},
		{"the last line needs no end", "a 2", a, 2},
		{"a Windows line", "a 2\r\n", a, 2},
		{"a time after the number", "a 2 1796040120270\n", a, 2},
		{"a time after a tab", "a 2\t1796040120270\n", a, 2},
		{"after another name's samples", "ab{x=\"1\"} 3\nab{x=\"2\"} 3\na{x=\"2\"} 2\nab{x=\"3\"} 3\na{x=\"3\"} 4\n\n{a} 1\na 1\n", a, 7},
		{"an exemplar after the number", "a 2 # {trace=\"1\"} 3\n", a, 2},
		{"blanks before and between", "  a \t{x=\"y\"} \t 2\n", a, 2},
		{"an exponent", "a 1.79603987855e+09\n", a, 1.79603987855e+09},
		{"another name that begins alike", "ab 3\na_total 4\n", a, nan},
		{"no sample", "# TYPE a gauge\n", a, nan},
		{"an empty page", "", a, nan},
		{"a number that the engine does not know", "a NaN\n", a, nan},
		{"minus one is how some say so", "a -1.0\n", a, nan},
		{"nor is infinity a number of anything", "a +Inf\n", a, nan},
		{"several samples are added up", "a{is_streaming=\"true\"} 1\na{is_streaming=\"false\"} 2\n", a, 3},
		{"several names too", "a 1\nb 2\nc 4\n", source{names: []string{"a", "b"}}, 3},
		{"ranks are added up", "a{dp_rank=\"0\",tp_rank=\"0\"} 1\na{dp_rank=\"1\",tp_rank=\"4\"} 2\n", a, 3},
		{"and so are vLLM's", "a{engine=\"0\"} 1\na{engine=\"1\"} 2\n", a, 3},
		{"processes of one rank are not", "a{dp_rank=\"0\",tp_rank=\"0\"} 5\na{dp_rank=\"0\",tp_rank=\"1\"} 4\na{dp_rank=\"0\",pp_rank=\"1\",tp_rank=\"0\"} 5\n", a, 5},
		{"what each of them adds up is", "a{m=\"x\",tp_rank=\"0\"} 1\na{m=\"y\",tp_rank=\"0\"} 2\na{m=\"x\",tp_rank=\"1\"} 1\na{m=\"y\",tp_rank=\"1\"} 2\n", a, 3},
		{"the mean of the ranks", "a{engine=\"0\"} 0.5\na{engine=\"1\"} 0.25\n", source{names: []string{"a"}, over: mean}, 0.375},
		{"the largest of the ranks", "a{engine=\"0\"} 16\na{engine=\"1\"} 16\n", source{names: []string{"a"}, over: largest}, 16},
		{"only some values of a label", "a{mode=\"hit\"} 1\na{mode=\"miss\"} 2\na{mode=\"host\"} 4\n", source{names: []string{"a"}, label: "mode", values: []string{"hit", "host"}}, 5},
		{"a part by priority is in the sum already", "a{priority=\"\"} 3\na{priority=\"1\"} 2\n", a, 3},
		{"a number in a label", "a{block_size=\"32\",n=\"728\"} 1.0\n", source{names: []string{"a"}, number: "n"}, 728},
		{"None in a label", "a{n=\"None\"} 1.0\n", source{names: []string{"a"}, number: "n"}, nan},
		{"no such label", "a{nn=\"1\"} 1.0\n", source{names: []string{"a"}, number: "n"}, nan},
		{"labels that look like others", `a{x="},n=\"9\\",n="7"} 1.0` + "\n", source{names: []string{"a"}, number: "n"}, 7},
		{"another unit", "a 1500\n", source{names: []string{"a"}, times: 1e-3}, 1.5},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			for _, r := range []io.Reader{strings.NewReader(tt.page), iotest.OneByteReader(strings.NewReader(tt.page))} {
				got, err := scan(r, []source{tt.of})

				if err != nil || !same(got[0], tt.want) {
					t.Errorf("scan(%q) = %v, %v, want %v", tt.page, got, err, tt.want)
				}
			}
		})
	}
}

func same(a, b float64) bool { return a == b || math.IsNaN(a) && math.IsNaN(b) }

func TestScanRefuses(t *testing.T) {
	broken := errors.New("broken off")
	ranks := func(n int) string {
		var b strings.Builder
		for i := range n {
			fmt.Fprintf(&b, "a{dp_rank=\"%d\"} 1\n", i)
		}
		return b.String()
	}
	tests := []struct {
		name string
		page io.Reader
		want string // in the error; empty: none
	}{
		{"a line of any length", strings.NewReader("a 1\n" + strings.Repeat("x", maxLineBytes+1)), "line 2 is longer than 16384 bytes"},
		{"a page of any length", strings.NewReader(strings.Repeat("# TYPE\n\n", maxPageBytes/8+1)), "longer than 8388608 bytes"},
		{"a page as long as can be", strings.NewReader(strings.Repeat("# TYPE\n\n", maxPageBytes/8)), ""},
		{"a number that is none", strings.NewReader("b x\na x\n"), `line 2: no number: "a x"`},
		{"no number at all", strings.NewReader("a\n"), `no number: "a"`},
		{"labels without an end", strings.NewReader(`a{b="}` + "\n"), "no sample"},
		{"more ranks than anybody has", strings.NewReader(ranks(maxRanks + 1)), "more than 512 ranks"},
		{"as many as anybody has", strings.NewReader(ranks(maxRanks)), ""},
		{"a page that breaks off", io.MultiReader(strings.NewReader("a 1\na"), iotest.ErrReader(broken)), "broken off"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			_, err := scan(tt.page, []source{{names: []string{"a"}}})

			if tt.want == "" && err != nil || tt.want != "" && (err == nil || !strings.Contains(err.Error(), tt.want)) {
				t.Errorf("scan = %v, want %q", err, tt.want)
			}
		})
	}
}

// longPage is a real page, repeated to n lines under the names of other
// families, as on an engine of many ranks.
func longPage(tb testing.TB, n int) []byte {
	tb.Helper()
	real, err := os.ReadFile("../sim/testdata/captures/sglang/metrics.decode.txt")
	if err != nil {
		tb.Fatal(err)
	}
	lines := bytes.SplitAfter(real, []byte("\n"))
	out := slices.Clone(real)
	for i := len(lines); i < n; i++ {
		out = append(out, bytes.ReplaceAll(lines[i%len(lines)], []byte("sglang:"), []byte("sglang:x_"))...)
	}
	return out
}

func sglangSources() []source {
	var all []source
	for _, r := range sglangReadings() {
		all = append(all, r.from...)
	}
	return all
}

// TestScanAllocatesByPage is about lines that nobody asks for costing nothing.
func TestScanAllocatesByPage(t *testing.T) {
	sources := sglangSources()
	count := func(page []byte) float64 {
		return testing.AllocsPerRun(10, func() {
			if _, err := scan(bytes.NewReader(page), sources); err != nil {
				t.Fatal(err)
			}
		})
	}
	if short, long := count(longPage(t, 0)), count(longPage(t, 5000)); long > short {
		t.Errorf("5000 lines cost %v allocations, 843 lines %v, want no more", long, short)
	}
}

func BenchmarkScan(b *testing.B) {
	page, sources := longPage(b, 5000), sglangSources()
	b.SetBytes(int64(len(page)))
	b.ReportAllocs()
	for b.Loop() {
		if _, err := scan(bytes.NewReader(page), sources); err != nil {
			b.Fatal(err)
		}
	}
}

// FuzzScan checks that no page does harm, and that the pieces in which it
// comes do not matter.
func FuzzScan(f *testing.F) {
	for _, name := range []string{"sglang/metrics.decode.txt", "vllm/metrics.prefill.txt"} {
		real, err := os.ReadFile("../sim/testdata/captures/" + name)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(real[:min(len(real), 4000)])
		for line := range bytes.Lines(real) {
			if bytes.Contains(line, []byte("cache_config_info{")) || bytes.Contains(line, []byte("effective_tokens_total{")) {
				f.Add(line)
			}
		}
	}
	f.Add([]byte(page))
	f.Add([]byte(`sglang:page_size{x="\"}",dp_rank="1"} 1e3 7` + "\n" + `vllm:kv_cache_usage_perc{engine="` + "\n"))
	sources := sglangSources()
	for _, r := range vllmReadings() {
		sources = append(sources, r.from...)
	}
	f.Fuzz(func(t *testing.T, page []byte) {
		whole, err := scan(bytes.NewReader(page), sources)
		pieces, other := scan(iotest.HalfReader(bytes.NewReader(page)), sources)
		if (err == nil) != (other == nil) || !slices.EqualFunc(whole, pieces, same) {
			t.Fatalf("in one piece: %v, %v; in several: %v, %v", whole, err, pieces, other)
		}
		for i, v := range whole {
			if v < 0 {
				t.Errorf("%v is %v", sources[i].names, v)
			}
		}
	})
}

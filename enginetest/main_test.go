package enginetest

import (
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// Flags of the test program; without any, it tests sim.
var (
	enginesDir = flag.String("engines", "", "where setup/*/install.sh has put the real engines; none: only sim is tested")
	only       = flag.String("only", "", "vllm or sglang, if not both")
	full       = flag.Bool("full", false, "also what kills engines")
	steps      = flag.String("steps", "", "words; only steps whose names have one of them, apart by commas")
	attach     = flag.String("attach", "", "URLs of prefill, decode and plain engine that run already, apart by commas; nothing is killed then")
	logs       = flag.String("logs", "", "where engines and routers write their logs; a directory that is removed unless told")
	router     = flag.String("router", "", "the pdrouter to test; built unless told")
)

func TestMain(m *testing.M) {
	flag.Parse()
	dir, err := os.MkdirTemp("", "enginetest")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	if *logs == "" {
		*logs = dir
	}
	if *router == "" {
		*router = filepath.Join(dir, "pdrouter")
		if out, err := exec.Command("go", "build", "-o", *router, "pdrouter/cmd/pdrouter").CombinedOutput(); err != nil {
			fmt.Fprintf(os.Stderr, "build the router: %v\n%s", err, out)
			os.Exit(1)
		}
	}
	code := m.Run()
	_ = os.RemoveAll(dir)
	os.Exit(code)
}

// A suite is the steps of one pair.
type suite struct {
	*pair
	t *testing.T
}

// step runs one step, and prints how long it took and the figures it returns.
func (s *suite) step(name string, do func(t *testing.T) string) {
	if !wanted(name) {
		return
	}
	began, figures := time.Now(), ""
	ok := s.t.Run(strings.ReplaceAll(name, " ", "_"), func(t *testing.T) { figures = do(t) })
	if !ok {
		figures = "FAILED " + figures
	}
	fmt.Fprintf(os.Stdout, "%-11s %-58s %6.1f s  %s\n", s.name, name, time.Since(began).Seconds(), figures)
}

// wanted reports whether -steps has a word of the name.
func wanted(name string) bool {
	if name == "engines and router start" {
		return true
	}
	if *steps == "" {
		return true
	}
	for word := range strings.SplitSeq(*steps, ",") {
		if strings.Contains(name, word) {
			return true
		}
	}
	return false
}

func TestSim(t *testing.T) {
	if *enginesDir != "" {
		t.Skip("real engines are tested")
	}
	for _, dialect := range []string{"vllm", "sglang"} {
		t.Run(dialect, func(t *testing.T) { run(t, newSimPair(t, dialect)) })
	}
}

func TestReal(t *testing.T) {
	if *enginesDir == "" {
		t.Skip("no -engines: run make engine-test")
	}
	for _, dialect := range []string{"vllm", "sglang"} {
		if *only == "" || *only == dialect {
			t.Run(dialect, func(t *testing.T) { run(t, newRealPair(t, dialect)) })
		}
	}
}

// run starts a pair and takes it through all steps.
func run(t *testing.T, p *pair) {
	s := &suite{p, t}
	s.step("engines and router start", s.start)
	if t.Failed() {
		return
	}
	s.answers()
	s.proof()
	s.crowd()
	s.departures()
	s.hostile()
	s.refusals()
	s.figures()
	if *attach == "" {
		s.deaths()
	}
}

// Command mutants breaks the product in one line at a time and checks that the
// test which is named for it notices. It changes nothing on disk: the broken
// line reaches the compiler through an overlay.
//
// usage: mutants [-only WORD] [-fit]   from the root of the repository
//
// -fit only looks whether each line to break stands in its file, once.
package main

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"
)

// A mutant is one breakage. Old must stand in File exactly once.
type mutant struct {
	what     string // what is broken, in words
	file     string
	old, new string
	test     string // a regular expression for -run
}

func main() {
	only := flag.String("only", "", "run only the mutants whose words contain this")
	fit := flag.Bool("fit", false, "only look whether each line to break stands where it should")
	flag.Parse()
	if err := run(*only, *fit); err != nil {
		fmt.Fprintln(os.Stderr, "mutants:", err)
		os.Exit(1)
	}
}

func run(only string, fit bool) error {
	dir, err := os.MkdirTemp("", "mutants")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	survivors, ran := 0, 0
	list := table()
	for i, m := range list {
		if !strings.Contains(m.what, only) {
			continue
		}
		ran++
		if fit {
			if _, err := m.broken(); err != nil {
				return fmt.Errorf("%s: %w", m.what, err)
			}
			continue
		}
		began := time.Now()
		verdict, err := try(dir, m)
		if err != nil {
			return fmt.Errorf("%s: %w", m.what, err)
		}
		if verdict != "caught" {
			survivors++
		}
		fmt.Printf("%2d/%d  %-8s %-62s %s (%.1fs)\n", i+1, len(list), verdict, m.what, m.test, time.Since(began).Seconds())
	}
	if fit {
		fmt.Printf("%d mutants fit\n", ran)
		return nil
	}
	fmt.Printf("%d passed, %d failed\n", ran-survivors, survivors)
	if survivors > 0 {
		return fmt.Errorf("%d of %d mutants were not caught", survivors, ran)
	}
	return nil
}

// broken returns the file as the mutant has it.
func (m mutant) broken() ([]byte, error) {
	source, err := os.ReadFile(m.file)
	if err != nil {
		return nil, err
	}
	if n := bytes.Count(source, []byte(m.old)); n != 1 {
		return nil, fmt.Errorf("the line to break stands %d times in %s, want once: %s", n, m.file, m.old)
	}
	return bytes.Replace(source, []byte(m.old), []byte(m.new), 1), nil
}

// try runs the test against the mutant: "caught" if it fails, "SURVIVED" if it
// passes. That the test passes without the mutant is for `make race` to show.
func try(dir string, m mutant) (verdict string, err error) {
	source, err := m.broken()
	if err != nil {
		return "", err
	}
	broken := filepath.Join(dir, "broken.go")
	if err := os.WriteFile(broken, source, 0o600); err != nil {
		return "", err
	}
	at, err := filepath.Abs(m.file)
	if err != nil {
		return "", err
	}
	overlay, err := json.Marshal(map[string]any{"Replace": map[string]string{at: broken}})
	if err != nil {
		return "", err
	}
	list := filepath.Join(dir, "overlay.json")
	if err := os.WriteFile(list, overlay, 0o600); err != nil {
		return "", err
	}
	out, err := exec.Command("go", "test", "-overlay", list, "-count=1", "-timeout=120s", "-run", m.test, "./"+filepath.Dir(m.file)).CombinedOutput()
	switch {
	case err == nil && bytes.Contains(out, []byte("no tests to run")):
		return "", fmt.Errorf("there is no test %s", m.test)
	case err == nil:
		return "SURVIVED", nil
	case bytes.Contains(out, []byte("[build failed]")), bytes.Contains(out, []byte("setup failed")):
		return "", fmt.Errorf("does not compile:\n%s", out)
	default:
		return "caught", nil
	}
}

package main

import (
	"flag"
	"fmt"
	"net"
	"os"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"
)

// update makes the golden tests write what they would compare.
var update = flag.Bool("update", false, "write golden files")

// leakFree runs the tests, and fails if they leave a goroutine behind.
type leakFree struct{ *testing.M }

func (m leakFree) Run() int {
	code := m.M.Run()
	if err := leaks(); code == 0 && err != nil {
		fmt.Fprintln(os.Stderr, "goroutines are left:", err)
		code = 1
	}
	return code
}

func TestMain(m *testing.M) {
	testscript.Main(leakFree{m}, map[string]func(){"pdrouter": main})
}

// TestScripts runs the command line as a user would, as a process.
func TestScripts(t *testing.T) {
	testscript.Run(t, testscript.Params{
		Dir:                 "testdata/script",
		UpdateScripts:       *update,
		RequireExplicitExec: true,
		Setup: func(env *testscript.Env) error {
			env.Setenv("GORACE", "atexit_sleep_ms=0") // else -race adds a second to each command
			return nil
		},
		Cmds: map[string]func(ts *testscript.TestScript, neg bool, args []string){
			"exits":   exits,
			"appears": func(ts *testscript.TestScript, neg bool, args []string) { awaitSocket(ts, neg, args, false) },
			"answers": func(ts *testscript.TestScript, neg bool, args []string) { awaitSocket(ts, neg, args, true) },
		},
	})
}

// exits runs a command and wants the exit status given before it:
//
//	exits 78 pdrouter check
func exits(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: exits STATUS COMMAND...")
	}
	err := ts.Exec(args[1], args[2:]...)
	code := 0
	if exit, ok := err.(interface{ ExitCode() int }); ok {
		code = exit.ExitCode()
	} else if err != nil {
		ts.Fatalf("run %s: %v", args[1], err)
	}
	if fmt.Sprint(code) != args[0] {
		ts.Fatalf("%v exits with %d, want %s", args[1:], code, args[0])
	}
}

// awaitSocket waits for a socket to be there, or for somebody to answer at it:
//
//	appears a.sock
//	answers a.sock
func awaitSocket(ts *testscript.TestScript, neg bool, args []string, answers bool) {
	if neg || len(args) != 1 {
		ts.Fatalf("usage: appears SOCKET, or answers SOCKET")
	}
	path := ts.MkAbs(args[0])
	there := func() bool {
		_, err := os.Lstat(path)
		if answers {
			var conn net.Conn
			if conn, err = net.Dial("unix", path); err == nil {
				conn.Close()
			}
		}
		return err == nil
	}
	if !eventually(there) {
		ts.Fatalf("nobody is at %s", path)
	}
}

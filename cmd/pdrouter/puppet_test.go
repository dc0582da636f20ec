package main

import (
	"bufio"
	"context"
	"encoding/json"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// A puppet is a program with a client library, which does what it is told by
// lines on its stdin: testdata/clients/client.py says how.
type puppet struct {
	name    string
	orders  io.Writer
	answers *bufio.Scanner
}

// A clientOrder is one request that a puppet is to send.
type clientOrder struct {
	Base     string         `json:"base"`
	Client   map[string]any `json:"client,omitempty"` // options, by Python's names
	Endpoint string         `json:"endpoint"`
	Body     map[string]any `json:"body,omitempty"`
	Extra    map[string]any `json:"extra,omitempty"`  // of the body, what the API does not have
	Leave    int            `json:"leave,omitempty"`  // close the stream after so many parts
	Cancel   string         `json:"cancel,omitempty"` // cancel when this URL answers
}

// A clientAnswer is what the client library made of the answer.
type clientAnswer struct {
	Parts           []string
	Usage           int
	Tool, Arguments string
	Finish          string
	Error           *clientError
	Seconds         float64
}

// A clientError is an exception of the client library.
type clientError struct {
	Type    string
	API     bool // whether it is one of the library's APIError
	Status  int
	Code    any // a name of ours; engines' own errors have their status here
	Message string
}

func (a clientAnswer) text() string { return strings.Join(a.Parts, "") }

// puppets returns the name of each puppet and what starts it.
func puppets() map[string]func(*testing.T) *puppet {
	python := func(name string, args ...string) func(*testing.T) *puppet {
		return func(t *testing.T) *puppet {
			t.Helper()
			root := clientsRoot(t, ".venv/ok")
			return startPuppet(t, name, filepath.Join(root, ".venv/bin/python"), args...)
		}
	}
	return map[string]func(*testing.T) *puppet{
		"python":       python("python", "testdata/clients/client.py"),
		"async python": python("async python", "testdata/clients/client.py", "async"),
		"node": func(t *testing.T) *puppet {
			t.Helper()
			return startPuppet(t, "node", "node", besidePackages(t, "testdata/clients/client.mjs"))
		},
	}
}

// clientsRoot returns the root of the repository, where make e2e-setup has put
// the clients. It skips the test if it has not.
func clientsRoot(t *testing.T, ok string) string {
	t.Helper()
	root, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(filepath.Join(root, ok)); err != nil {
		missing(t, ok+" is missing: run `make e2e-setup`")
	}
	return root
}

// besidePackages returns the path of a copy of a script for node, which looks
// for packages beside it.
func besidePackages(t *testing.T, script string) string {
	t.Helper()
	root := clientsRoot(t, ".cache/node/ok")
	text, err := os.ReadFile(script)
	if err != nil {
		t.Fatal(err)
	}
	f, err := os.CreateTemp(filepath.Join(root, ".cache/node"), "*.mjs")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.Remove(f.Name()) })
	if _, err := f.Write(text); err != nil {
		t.Fatal(err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	return f.Name()
}

// startPuppet runs a puppet until the test ends.
func startPuppet(t *testing.T, name, program string, args ...string) *puppet {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 4*time.Minute)
	cmd := exec.CommandContext(ctx, program, args...)
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		defer cancel()
		_ = in.Close()
		if err := cmd.Wait(); err != nil {
			t.Errorf("%s ended with %v", name, err)
		}
	})
	return &puppet{name: name, orders: in, answers: bufio.NewScanner(out)}
}

// do has the puppet send a request, and returns what came of it.
func (p *puppet) do(t *testing.T, o clientOrder) (got clientAnswer) {
	t.Helper()
	o.Base += "/v1"
	if _, err := io.WriteString(p.orders, jsonOf(t, o)+"\n"); err != nil {
		t.Fatalf("tell %s: %v", p.name, err)
	}
	if !p.answers.Scan() {
		t.Fatalf("%s did not answer to %s: %v", p.name, jsonOf(t, o), p.answers.Err())
	}
	if err := json.Unmarshal(p.answers.Bytes(), &got); err != nil {
		t.Fatalf("%s printed %s: %v", p.name, p.answers.Bytes(), err)
	}
	return got
}

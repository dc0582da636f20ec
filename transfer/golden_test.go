package transfer

import (
	"bytes"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/tools/txtar"
)

var update = flag.Bool("update", false, "write what the dialects say into the golden files")

// testAttempt is the attempt of every golden case: rooms that a float64 would
// round, and the address of one prefill worker.
func testAttempt(req *Request) Attempt {
	a := Attempt{ID: "0123456789abcdef0123456789abcdef", BootstrapHost: "10.0.0.5", BootstrapPort: 8998}
	for i := range max(1, req.Batch()) {
		a.Rooms = append(a.Rooms, 4611686018427387905+uint64(i))
	}
	return a
}

// TestGolden runs every case of testdata/<dialect>. A case's comment begins with
// the path that the client called, and says what the case is there for. Parts:
// client.json, then error.txt or prefill.json and decode.json; answer.json is
// prefill's, reply.json decode's, merged.json what the client gets of both.
func TestGolden(t *testing.T) {
	for _, name := range Names() {
		files, err := filepath.Glob(filepath.Join("testdata", name, "*.txtar"))
		if err != nil || len(files) == 0 {
			t.Fatalf("dialect %s has no cases: %v", name, err)
		}
		d, _ := Lookup(name)
		for _, file := range files {
			t.Run(name+"/"+strings.TrimSuffix(filepath.Base(file), ".txtar"), func(t *testing.T) {
				goldenCase(t, d, file)
			})
		}
	}
}

func goldenCase(t *testing.T, d Dialect, file string) {
	archive, err := txtar.ParseFile(file)
	if err != nil {
		t.Fatal(err)
	}
	want := parts(archive)
	got := runCase(t, d, endpointOf(t, archive), want)
	if *update {
		rewrite(t, file, archive, got)
		return
	}
	for name, text := range got {
		if text != want[name] {
			t.Errorf("%s of %s:\n got %s\nwant %s", name, file, text, want[name])
		}
	}
	for _, name := range []string{"error.txt", "prefill.json", "decode.json", "merged.json"} {
		if _, ok := got[name]; !ok && want[name] != "" {
			t.Errorf("%s of %s: nothing, want %s", name, file, want[name])
		}
	}
}

// runCase returns the parts that the dialect makes of a case.
func runCase(t *testing.T, d Dialect, e Endpoint, in map[string]string) map[string]string {
	t.Helper()
	req, err := Parse(e, []byte(in["client.json"]))
	if err == nil {
		err = d.Check(req)
	}
	if err != nil {
		return map[string]string{"error.txt": describe(t, err)}
	}
	a := testAttempt(req)
	prefill, err := d.Prefill(req, a)
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]string{"prefill.json": legText(t, prefill)}
	var answer []byte
	if d.Traits().Order == PrefillFirst {
		answer = []byte(in["answer.json"])
	}
	decode, err := d.Decode(req, a, answer)
	if err != nil {
		out["error.txt"] = describe(t, err)
		return out
	}
	out["decode.json"] = legText(t, decode)
	if in["reply.json"] == "" {
		return out
	}
	merged, err := d.Merge(req, []byte(in["answer.json"]), []byte(in["reply.json"]))
	if err != nil {
		out["error.txt"] = describe(t, err)
		return out
	}
	if same := string(merged) == in["reply.json"]; same == decode.Merged {
		t.Errorf("Leg.Merged = %v, but the answer is changed: %v", decode.Merged, !same)
	}
	out["merged.json"] = string(merged)
	return out
}

func describe(t *testing.T, err error) string {
	t.Helper()
	if bad, ok := errors.AsType[*BadRequest](err); ok {
		return fmt.Sprintf("400 %s param=%q: %s", bad.Code, bad.Param, bad.Message)
	}
	return err.Error()
}

// legText returns a leg's body in one piece.
func legText(t *testing.T, l Leg) string {
	t.Helper()
	body := bytes.Join(l.Body, nil)
	if int64(len(body)) != l.Length {
		t.Errorf("Leg.Length = %d, want %d", l.Length, len(body))
	}
	return string(body)
}

func endpointOf(t *testing.T, archive *txtar.Archive) Endpoint {
	t.Helper()
	path, _, _ := strings.Cut(string(archive.Comment), "\n")
	for _, e := range []Endpoint{Chat, Completions, Generate} {
		if path == e.Path() {
			return e
		}
	}
	t.Fatalf("%q is no endpoint", path)
	return 0
}

func parts(archive *txtar.Archive) map[string]string {
	m := map[string]string{}
	for _, f := range archive.Files {
		m[f.Name] = strings.TrimSuffix(string(f.Data), "\n")
	}
	return m
}

func rewrite(t *testing.T, file string, archive *txtar.Archive, got map[string]string) {
	t.Helper()
	in := parts(archive)
	out := &txtar.Archive{Comment: archive.Comment}
	for _, name := range []string{"client.json", "prefill.json", "answer.json", "decode.json", "reply.json", "merged.json", "error.txt"} {
		text, ok := got[name]
		if !ok && (name == "client.json" || name == "answer.json" || name == "reply.json") {
			text, ok = in[name]
			ok = ok && (name == "client.json" || got["prefill.json"] != "")
		}
		if ok {
			out.Files = append(out.Files, txtar.File{Name: name, Data: []byte(text + "\n")})
		}
	}
	if err := os.WriteFile(file, txtar.Format(out), 0o644); err != nil {
		t.Fatal(err)
	}
}

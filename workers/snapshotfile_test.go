package workers

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// files returns the names in dir.
func files(t *testing.T, dir string) string {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return strings.Join(names, " ")
}

// TestReplaceFile: a file is there whole, as it was or as it is to be, and
// nothing else is left.
func TestReplaceFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "index")
	says := func(text string) func(io.Writer) error {
		return func(w io.Writer) error {
			_, err := io.WriteString(w, text)
			return err
		}
	}
	want := func(text string) {
		t.Helper()
		if got, err := os.ReadFile(path); string(got) != text || err != nil {
			t.Errorf("the file has %q, %v, want %q", got, err, text)
		}
		if names := files(t, filepath.Dir(path)); names != "index" {
			t.Errorf("files = %q, want one", names)
		}
	}
	if err := replaceFile(path, says("one")); err != nil {
		t.Fatal(err)
	}
	want("one")
	about, err := os.Stat(path)
	if err != nil || about.Mode() != 0o600 {
		t.Errorf("mode = %v, %v, want 0600", about.Mode(), err)
	}
	if err := replaceFile(path, says("two")); err != nil {
		t.Fatal(err)
	}
	want("two")
	err = replaceFile(path, func(w io.Writer) error {
		want := errors.Join(says("half")(w), errFull)
		if got := files(t, filepath.Dir(path)); !strings.Contains(got, "index.") {
			t.Errorf("files = %q while one is written, want another", got)
		}
		return want
	})
	if !errors.Is(err, errFull) {
		t.Errorf("error = %v, want that of the write", err)
	}
	want("two")
	for _, bad := range []string{filepath.Join(path, "below-a-file"), filepath.Join(t.TempDir(), "no", "such")} {
		if err := replaceFile(bad, says("x")); err == nil {
			t.Errorf("%s was written", bad)
		}
	}
	dir := t.TempDir()
	if err := replaceFile(dir, says("x")); err == nil || files(t, dir) != "" {
		t.Errorf("error = %v in place of a directory, in which is %q", err, files(t, dir))
	}
}

// TestLoadSnapshot: what is no snapshot is not read, and nothing waits for it.
func TestLoadSnapshot(t *testing.T) {
	dir := t.TempDir()
	at := func(name string) string { return filepath.Join(dir, name) }
	write := func(name string, text []byte, mode os.FileMode) {
		if err := os.WriteFile(at(name), text, mode); err != nil {
			t.Fatal(err)
		}
	}
	write("good", written(t), 0o600)
	if err := os.Symlink("good", at("link")); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Mkfifo(at("pipe"), 0o600); err != nil {
		t.Fatal(err)
	}
	write("huge", nil, 0o600)
	if err := os.Truncate(at("huge"), 100*bytesPerBlock+bytesForHeads+1); err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct{ name, fault string }{
		{"good", ""},
		{"link", ""},
		{"none", "no such file"},
		{"pipe", "no regular file"},
		{".", "no regular file"},
		{"huge", "a snapshot of 100 blocks"},
	} {
		s, faults := loadSnapshot(at(tt.name), 100)
		err := errors.Join(faults...)
		if (s != nil) != (tt.fault == "") || (err == nil) != (tt.fault == "") || err != nil && !strings.Contains(err.Error(), tt.fault) {
			t.Errorf("%s: %v, %v, want %q", tt.name, s, err, tt.fault)
		}
	}
}

// TestRemoveLeftovers: what a router that was killed has left is removed, and
// nothing else is.
func TestRemoveLeftovers(t *testing.T) {
	dir, now := t.TempDir(), time.Now()
	for name, age := range map[string]time.Duration{
		"index": 9 * time.Hour, "index.1.new": 9 * time.Hour, "index.2.new": time.Minute,
		"index.old": 9 * time.Hour, "other.1.new": 9 * time.Hour, "index2.1.new": 9 * time.Hour,
	} {
		path := filepath.Join(dir, name)
		if err := errors.Join(os.WriteFile(path, nil, 0o600), os.Chtimes(path, now, now.Add(-age))); err != nil {
			t.Fatal(err)
		}
	}
	removeLeftovers(filepath.Join(dir, "index"), now)
	if got, want := files(t, dir), "index index.2.new index.old index2.1.new other.1.new"; got != want {
		t.Errorf("files = %q, want %q", got, want)
	}
	removeLeftovers(filepath.Join(dir, "no", "such"), now)
}

package main

import (
	"context"
	"errors"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// A socket is there with its mode from the first moment, in a folder that is
// made for it, and gone when it is closed. Nothing else is left.
func TestListenUnix(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "made")
	path := filepath.Join(dir, "a.sock")
	ln, err := listenUnix(context.Background(), path)
	if err != nil {
		t.Fatal(err)
	}
	file, err := os.Lstat(path)
	if err != nil || file.Mode().Perm() != socketMode || file.Mode()&os.ModeSocket == 0 {
		t.Errorf("%s is %v, %v", path, file.Mode(), err)
	}
	if _, err := listenUnix(context.Background(), path); !errors.Is(err, errAnswered) {
		t.Errorf("listening there again: %v, want %v", err, errAnswered)
	}
	if err := ln.Close(); err != nil {
		t.Error(err)
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) != 0 {
		t.Errorf("left are %v, %v", left, err)
	}
}

// A file is never taken for a socket that was left behind, nor is the socket of
// a daemon that came after.
func TestListenUnixLeavesOthersAlone(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "file")
	if err := os.WriteFile(file, []byte("precious"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := listenUnix(context.Background(), file); err == nil || !strings.Contains(err.Error(), "no socket") {
		t.Errorf("listening at a file: %v", err)
	}
	if text, err := os.ReadFile(file); string(text) != "precious" || err != nil {
		t.Errorf("the file is %q, %v", text, err)
	}
	path := filepath.Join(dir, "a.sock")
	first, err := listenUnix(context.Background(), path)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	second, err := listenUnix(context.Background(), path)
	if err != nil {
		t.Fatal(err)
	}
	defer second.Close()
	_ = first.Close()
	if _, err := os.Lstat(path); err != nil {
		t.Errorf("the first took the socket of the second away: %v", err)
	}
}

func TestOpenAdminSocket(t *testing.T) {
	if ln, why, err := openAdminSocket(noSocket, nil); ln != nil || why != "" || err != nil {
		t.Errorf("none = %v, %q, %v", ln, why, err)
	}
	if _, _, err := openAdminSocket("/nowhere/else/a.sock", func(path string) (net.Listener, error) { return listenUnix(context.Background(), path) }); err == nil {
		t.Error("a socket in a folder that cannot be made is no fault")
	}
}

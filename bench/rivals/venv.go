package main

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"
)

// pinned is the folder of the requirements, from the root of the module.
const pinned = "bench/rivals/testdata"

// installTime bounds the installation of one rival.
const installTime = 10 * time.Minute

// install makes the virtual environment of each rival, unless it is there.
func install(ctx context.Context, dir string) error {
	for _, name := range rivals() {
		want, err := os.ReadFile(filepath.Join(pinned, name+".txt"))
		if err != nil {
			return err
		}
		mark := filepath.Join(dir, name, "installed.txt")
		if have, err := os.ReadFile(mark); err == nil && bytes.Equal(have, want) {
			continue
		}
		say("installing %s", bytes.TrimSpace(want))
		if err := installOne(ctx, filepath.Join(dir, name), name); err != nil {
			return fmt.Errorf("install %s: %w", name, err)
		}
		if err := os.WriteFile(mark, want, 0o644); err != nil {
			return err
		}
	}
	return nil
}

func installOne(ctx context.Context, venv, name string) error {
	ctx, cancel := context.WithTimeout(ctx, installTime)
	defer cancel()
	for _, line := range [][]string{
		{"python3", "-m", "venv", "--clear", venv},
		{filepath.Join(venv, "bin", "pip"), "install", "--quiet", "--disable-pip-version-check", "-r", filepath.Join(pinned, name+".txt")},
	} {
		if out, err := exec.CommandContext(ctx, line[0], line[1:]...).CombinedOutput(); err != nil {
			return fmt.Errorf("%s: %w\n%s", strings.Join(line[:min(3, len(line))], " "), err, out)
		}
	}
	return nil
}

// version returns what is pinned of a rival, as in smg 1.13.0.
func version(name string) string {
	text, _ := os.ReadFile(filepath.Join(pinned, name+".txt")) // install has read it
	return strings.Replace(strings.TrimSpace(string(text)), "==", " ", 1)
}

package main

import (
	"context"
	_ "embed"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// bootScript boots systemd.
//
//go:embed boot.sh
var bootScript string

// inside is where the files of a run are found within it.
const inside = "/opt/hosttest"

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, os.Args[1:], os.Stdout)
	stop()
	if err != nil && !errors.Is(err, flag.ErrHelp) {
		fmt.Fprintln(os.Stderr, "hosttest:", err)
		os.Exit(1) //nolint:forbidigo // func main exits
	}
}

func run(ctx context.Context, args []string, out io.Writer) error {
	set := flag.NewFlagSet("hosttest", flag.ContinueOnError)
	files := set.String("files", "", "`directory` with old.deb, new.deb and prometheus")
	within := set.Bool("inside", false, "this is the booted system")
	if err := set.Parse(args); err != nil {
		return err
	}
	if *within {
		return runSteps(ctx, out)
	}
	return outside(ctx, *files, out)
}

// outside boots the system, runs this program in it, and ends it.
func outside(ctx context.Context, files string, out io.Writer) (err error) {
	dir, err := os.MkdirTemp("", "hosttest")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	console, err := os.Create(filepath.Join(dir, "console"))
	if err != nil {
		return err
	}
	defer console.Close()
	root := filepath.Join(dir, "root")
	if err := os.Mkdir(root, 0o700); err != nil {
		return err
	}
	boot := exec.CommandContext(ctx, "bash", "-c", bootScript, "boot", root, files)
	boot.Stdout, boot.Stderr = console, console
	boot.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := boot.Start(); err != nil {
		return err
	}
	groups := groupsOf(boot.Process.Pid)
	defer func() {
		_ = boot.Process.Kill() // unshare, which takes the namespace along
		_ = boot.Wait()
		removeGroups(context.WithoutCancel(ctx), groups)
	}()
	began := time.Now()
	system, err := awaitSystem(ctx, boot.Process.Pid)
	if err != nil {
		text, _ := os.ReadFile(console.Name())
		return fmt.Errorf("boot systemd: %w\n%s", err, text)
	}
	fmt.Fprintf(out, "systemd has booted in %.1f s\n", time.Since(began).Seconds())
	steps := enter(ctx, system, filepath.Join(inside, "hosttest"), "-inside")
	steps.Stdout, steps.Stderr = out, os.Stderr
	if err := steps.Run(); err != nil {
		return fmt.Errorf("the steps: %w", err)
	}
	return nil
}

// enter is a command in the namespaces of a process.
func enter(ctx context.Context, pid int, args ...string) *exec.Cmd {
	return exec.CommandContext(ctx, "nsenter", append([]string{"--target", strconv.Itoa(pid), "--all"}, args...)...)
}

// awaitSystem returns the process which is PID 1 in the namespaces that parent
// has made, once it has booted.
func awaitSystem(ctx context.Context, parent int) (pid int, err error) {
	err = eventually(ctx, 30*time.Second, func() error {
		text, err := os.ReadFile(fmt.Sprintf("/proc/%d/task/%[1]d/children", parent))
		if err != nil {
			return err
		}
		first, _, _ := strings.Cut(string(text), " ")
		if pid, err = strconv.Atoi(first); err != nil {
			return errors.New("there is no process yet")
		}
		state, err := enter(ctx, pid, "systemctl", "is-system-running").Output()
		if now := strings.TrimSpace(string(state)); now != "running" && now != "degraded" {
			return fmt.Errorf("it is %q: %w", now, err)
		}
		return nil
	})
	return pid, err
}

// groupsOf returns the directory of the control groups that boot.sh makes.
func groupsOf(pid int) string {
	mounts, _ := os.ReadFile("/proc/mounts")
	for line := range strings.Lines(string(mounts)) {
		if f := strings.Fields(line); len(f) > 2 && f[2] == "cgroup2" {
			return filepath.Join(f[1], fmt.Sprintf("pdrouter-hosttest.%d", pid))
		}
	}
	return ""
}

// removeGroups removes control groups, those within first. The kernel may need a
// moment to see that they are empty; what stays costs nothing.
func removeGroups(ctx context.Context, top string) {
	if top == "" {
		return
	}
	_ = eventually(ctx, 5*time.Second, func() error {
		var all []string
		_ = filepath.WalkDir(top, func(path string, d os.DirEntry, err error) error {
			if err == nil && d.IsDir() {
				all = append(all, path)
			}
			return nil
		})
		var last error
		for _, group := range slices.Backward(all) {
			last = os.Remove(group)
		}
		return last
	})
}

// eventually waits until so returns nil, and returns what it said last if that
// does not come in time.
func eventually(ctx context.Context, limit time.Duration, so func() error) error {
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for deadline := time.Now().Add(limit); ; {
		err := so()
		if err == nil || time.Now().After(deadline) {
			return err
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return errors.Join(err, ctx.Err())
		}
	}
}

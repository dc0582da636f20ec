package systemd

import (
	"net"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// manager is a service manager's socket, and what comes there.
func manager(t *testing.T) *net.UnixConn {
	path := filepath.Join(t.TempDir(), "notify")
	conn, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: path, Net: "unixgram"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	t.Setenv("NOTIFY_SOCKET", path)
	return conn
}

func heard(t *testing.T, conn *net.UnixConn) string {
	t.Helper()
	_ = conn.SetReadDeadline(time.Now().Add(5 * time.Second))
	buf := make([]byte, 4096)
	n, err := conn.Read(buf)
	if err != nil {
		t.Fatal(err)
	}
	return string(buf[:n])
}

func TestWhatIsTold(t *testing.T) {
	conn := manager(t)
	for _, tt := range []struct {
		name string
		tell func() error
		want string
	}{
		{"ready", func() error { return Ready("ready 4/4") }, "READY=1\nSTATUS=ready 4/4"},
		{"a status of two lines", func() error { return Status("a\nREADY=1") }, "STATUS=a READY=1"},
		{"stopping", func() error { return Stopping("draining") }, "STOPPING=1\nSTATUS=draining"},
		{"more time", func() error { return Extend(90 * time.Second) }, "EXTEND_TIMEOUT_USEC=90000000"},
		{"alive", Alive, "WATCHDOG=1"},
		{"another process", func() error { return MainPID(42) }, "MAINPID=42"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if err := tt.tell(); err != nil {
				t.Fatal(err)
			}
			if got := heard(t, conn); got != tt.want {
				t.Errorf("told %q, want %q", got, tt.want)
			}
		})
	}
}

// TestReloadingTellsTheTime of the clock that systemd compares with its own.
func TestReloadingTellsTheTime(t *testing.T) {
	conn := manager(t)
	var before, after unix.Timespec
	_ = unix.ClockGettime(unix.CLOCK_MONOTONIC, &before)
	if err := Reloading("reloading"); err != nil {
		t.Fatal(err)
	}
	_ = unix.ClockGettime(unix.CLOCK_MONOTONIC, &after)
	lines := strings.Split(heard(t, conn), "\n")
	if len(lines) != 3 || lines[0] != "RELOADING=1" || lines[2] != "STATUS=reloading" {
		t.Fatalf("told %q", lines)
	}
	text, _ := strings.CutPrefix(lines[1], "MONOTONIC_USEC=")
	if at, err := strconv.ParseInt(text, 10, 64); err != nil || at < before.Nano()/1000 || at > after.Nano()/1000 {
		t.Errorf("told %s, the clock went from %d to %d", lines[1], before.Nano()/1000, after.Nano()/1000)
	}
}

func TestNobodyToTell(t *testing.T) {
	t.Setenv("NOTIFY_SOCKET", "")
	if err := Ready("x"); err != nil {
		t.Errorf("telling nobody: %v", err)
	}
}

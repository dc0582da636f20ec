package systemd

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"os"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"
)

// TestMain is also the successor that TestSuccessor starts.
func TestMain(m *testing.M) {
	if files, is := Succeeding(); is {
		succeed(files)
		return
	}
	os.Exit(m.Run())
}

// succeed answers one connection on each of its sockets with that one's name, and
// tells on its first file what it found in its environment.
func succeed(files []*os.File) {
	within, _ := Watchdog()
	fmt.Fprintln(files[0], os.Args[1], os.Getppid(), within, os.Getenv("WATCHDOG_PID"), os.Getenv("KEPT"), os.Getenv("LISTEN_PID"))
	for name, all := range Listeners() {
		for _, ln := range all {
			conn, err := ln.Accept()
			if err == nil {
				fmt.Fprint(conn, name)
				conn.Close()
			}
		}
	}
}

// TestSuccessor: it gets sockets by their names, files, arguments and the
// environment, but what was said to its predecessor alone; and it is not that
// one's child.
func TestSuccessor(t *testing.T) {
	for name, value := range map[string]string{
		"LISTEN_PID": "1", "LISTEN_FDS": "7", "LISTEN_FDNAMES": "x", "WATCHDOG_PID": fmt.Sprint(os.Getpid()), "WATCHDOG_USEC": "5000000", "KEPT": "kept",
	} {
		t.Setenv(name, value)
	}
	var sockets []Named
	for _, name := range []string{"metrics", "data", "a name with 127.0.0.1 in it"} {
		ln, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		defer ln.Close()
		sockets = append(sockets, Named{name, ln})
	}
	tell, told := pipe(t)
	s, err := Command{Path: os.Args[0], Args: []string{"successor", "argument"}, Sockets: sockets, Files: []*os.File{told}}.Start()
	if err != nil {
		t.Fatal(err)
	}
	_ = told.Close()
	defer s.Close()
	defer s.Kill()
	line, err := bufio.NewReader(tell).ReadString('\n')
	if want := []string{"argument", fmt.Sprint(os.Getppid()), "5s", "kept", fmt.Sprint(s.PID)}; err != nil || !slices.Equal(strings.Fields(line), want) {
		t.Errorf("a successor finds %q, %v, want %q", line, err, want)
	}
	var conns []net.Conn // all at once: it answers them in the order that it likes
	for _, n := range sockets {
		conn, err := net.Dial("tcp", n.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		_ = conn.SetDeadline(time.Now().Add(time.Minute))
		conns = append(conns, conn)
	}
	for i, n := range sockets {
		if got, err := io.ReadAll(conns[i]); string(got) != n.Name {
			t.Errorf("at the socket %q answers %q, %v", n.Name, got, err)
		}
		flags, err := flagsOf(n.Listener)
		if err != nil || flags&syscall.O_NONBLOCK == 0 {
			t.Errorf("the socket %q has flags %#x, %v: it blocks now", n.Name, flags, err)
		}
	}
	if _, err := tell.Read(make([]byte, 1)); err != io.EOF {
		t.Errorf("its end is not seen: %v", err)
	}
}

func pipe(t *testing.T) (r, w *os.File) {
	t.Helper()
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { r.Close() })
	return r, w
}

func flagsOf(ln net.Listener) (flags uintptr, err error) {
	raw, err := ln.(syscall.Conn).SyscallConn()
	if err != nil {
		return 0, err
	}
	err = raw.Control(func(fd uintptr) { flags, _, _ = syscall.Syscall(syscall.SYS_FCNTL, fd, syscall.F_GETFL, 0) })
	return flags, err
}

func TestNoSuccessor(t *testing.T) {
	if _, err := (Command{Path: "/nowhere/at/all"}).Start(); err == nil {
		t.Error("a program is started that is not there")
	}
	if files, is := Succeeding(); is {
		t.Errorf("this process takes itself for a successor, with %v", files)
	}
}

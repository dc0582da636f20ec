package systemd

import (
	"errors"
	"fmt"
	"net"
	"os"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// successorVar is the variable by which a successor knows that it is one: how
// many files it was given behind its sockets.
const successorVar = "PDROUTER_SUCCESSOR_FILES"

// firstSocket is the descriptor of the first socket, by sd_listen_fds(3).
const firstSocket = 3

// A Named is a listener with the name under which it is handed over.
type Named struct {
	Name string // without a colon
	net.Listener
}

// A Command is how a successor is started.
type Command struct {
	Path    string
	Args    []string // with the name of the program
	Sockets []Named
	Files   []*os.File // for Succeeding
}

// A Successor is a process that was started to take the place of this one.
type Successor struct {
	PID  int
	file int // its pidfd; -1: the kernel has none
}

// Start starts a successor. It gets the environment, the standard streams, the
// working directory and copies of the sockets, which Listeners returns there by
// their names. It is a child of this process's parent and not of this process,
// so that the service manager hears of its end and it outlives this one.
func (c Command) Start() (*Successor, error) {
	fds := []uintptr{0, 1, 2}
	var names []string
	for _, s := range c.Sockets {
		fd, err := copyOf(s.Listener)
		if err != nil {
			return nil, fmt.Errorf("hand over socket %s: %w", s.Name, err)
		}
		defer unix.Close(fd)
		fds, names = append(fds, uintptr(fd)), append(names, s.Name)
	}
	for _, f := range c.Files {
		fds = append(fds, f.Fd())
	}
	s := &Successor{file: -1}
	attr := &syscall.ProcAttr{
		Files: fds, Env: successorEnv(os.Environ(), names, len(c.Files)),
		Sys: &syscall.SysProcAttr{Cloneflags: syscall.CLONE_PARENT, PidFD: &s.file},
	}
	var err error
	if s.PID, err = syscall.ForkExec(c.Path, c.Args, attr); errors.Is(err, syscall.EINVAL) && os.Getpid() == 1 {
		err = errors.New("this is process 1, with which all others end")
	}
	if err != nil {
		return nil, fmt.Errorf("start %s: %w", c.Path, err)
	}
	return s, nil
}

// successorEnv returns the environment of a successor. What was said to this
// process alone (WATCHDOG_PID, LISTEN_PID) is not said to that one: it is the
// service's main process when it gets to it.
func successorEnv(env, names []string, files int) []string {
	var out []string
	for _, v := range env {
		switch name, _, _ := strings.Cut(v, "="); name {
		case "LISTEN_PID", "LISTEN_FDS", "LISTEN_FDNAMES", "WATCHDOG_PID", successorVar:
		default:
			out = append(out, v)
		}
	}
	return append(out, "LISTEN_FDS="+strconv.Itoa(len(names)), "LISTEN_FDNAMES="+strings.Join(names, ":"), successorVar+"="+strconv.Itoa(files))
}

// copyOf returns a copy of a listener's descriptor. Its File would make the
// socket block, for us too.
func copyOf(ln net.Listener) (fd int, err error) {
	conn, ok := ln.(syscall.Conn)
	if !ok {
		return 0, errors.New("it is no socket")
	}
	raw, err := conn.SyscallConn()
	if err != nil {
		return 0, err
	}
	var fault error
	err = raw.Control(func(its uintptr) { fd, fault = unix.FcntlInt(its, unix.F_DUPFD_CLOEXEC, firstSocket) })
	return fd, errors.Join(err, fault)
}

// Kill ends it at once.
func (s *Successor) Kill() {
	if s.file < 0 {
		_ = unix.Kill(s.PID, unix.SIGKILL)
		return
	}
	_ = unix.PidfdSendSignal(s.file, unix.SIGKILL, nil, 0) // it may have ended
}

// Close forgets it.
func (s *Successor) Close() {
	if s.file >= 0 {
		_ = unix.Close(s.file)
		s.file = -1
	}
}

// Succeeding returns the files that this process was given if it was started as
// a successor. It is called once, before Listeners.
func Succeeding() (files []*os.File, is bool) {
	n, err := strconv.Atoi(os.Getenv(successorVar))
	_ = os.Unsetenv(successorVar)
	if err != nil || n < 0 {
		return nil, false
	}
	sockets, err := strconv.Atoi(os.Getenv("LISTEN_FDS"))
	if err != nil || sockets < 0 {
		return nil, false
	}
	_ = os.Setenv("LISTEN_PID", strconv.Itoa(os.Getpid())) // who started it could not know
	for i := range n {
		fd := firstSocket + sockets + i
		unix.CloseOnExec(fd)
		files = append(files, os.NewFile(uintptr(fd), "predecessor"))
	}
	return files, true
}

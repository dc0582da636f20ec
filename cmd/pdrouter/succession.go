package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"time"

	"golang.org/x/sys/unix"
)

// What two processes say to one another, of which one takes the other's place.
// The old one speaks first.
//
//	old   estate    what there is, so that the new one can look at the workers
//	new   ready     it has; or failed, and why
//	old   yours     serve; and what has become of the estate meanwhile
//	new   serving   connections are accepted
//	old   main      the service manager knows: speak to it
//	new   stop      it was told to stop: hurry
//
// After main the old one drains. The new one sees its end in that of the
// connection, and does not end before. If either ends before the new one is
// serving, nothing has happened.
const (
	sayEstate  = "estate"
	sayReady   = "ready"
	sayFailed  = "failed"
	sayYours   = "yours"
	sayServing = "serving"
	sayMain    = "main"
	sayStop    = "stop"
)

// A message is one of these.
type message struct {
	Say    string  `json:"say"`
	Why    string  `json:"why,omitempty"`
	Estate *estate `json:"estate,omitempty"`
}

// A link is one end of a connection between a process and its successor.
type link struct {
	conn net.Conn
	dec  *json.Decoder
}

func newLink(conn net.Conn) *link { return &link{conn, json.NewDecoder(conn)} }

// newLinks returns both ends of a link: ours, and the other one to be given away.
func newLinks() (ours *link, theirs *os.File, err error) {
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, nil, fmt.Errorf("open a connection to the successor: %w", err)
	}
	theirs = os.NewFile(uintptr(fds[1]), "successor")
	if ours, err = linkOf(os.NewFile(uintptr(fds[0]), "successor")); err != nil {
		_ = theirs.Close()
	}
	return ours, theirs, err
}

// linkOf makes a link of a file, which it closes.
func linkOf(file *os.File) (*link, error) {
	defer file.Close()
	conn, err := net.FileConn(file)
	if err != nil {
		return nil, fmt.Errorf("use a connection to another process: %w", err)
	}
	return newLink(conn), nil
}

// sayTime is how long the other one may take to take what is said.
const sayTime = 5 * time.Second

func (l *link) say(m message) error {
	_ = l.conn.SetWriteDeadline(time.Now().Add(sayTime))
	text, err := json.Marshal(m)
	if err != nil {
		return err
	}
	_, err = l.conn.Write(text)
	return err
}

// hear returns what the other one says next. It is to be one of these.
func (l *link) hear(wanted ...string) (message, error) {
	var m message
	if err := l.dec.Decode(&m); err != nil {
		return m, err
	}
	if slices.Contains(wanted, m.Say) {
		return m, nil
	}
	return m, fmt.Errorf("the other process says %q where it should say one of %q", m.Say, wanted)
}

// hungUp reports whether an error of a link says that the other process has ended.
func hungUp(err error) bool {
	return errors.Is(err, io.EOF) || errors.Is(err, unix.ECONNRESET) || errors.Is(err, unix.EPIPE)
}

// A program is how this process was started.
type program struct {
	path string
	args []string
}

// thisProgram returns it. The path is the one that was named, which may be a
// link: what it leads to later is the new program. What the kernel says of the
// running one is where the old one was.
func thisProgram() (program, error) {
	path, err := exec.LookPath(os.Args[0])
	if err == nil {
		path, err = filepath.Abs(path)
	}
	if err != nil {
		path, err = os.Executable()
	}
	return program{path, os.Args}, err
}

package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
)

// The words for --admin-socket that are no path.
const (
	anySocket = "auto"
	noSocket  = "none"
)

// socketMode lets the owner and the group of an admin socket use it.
const socketMode = 0o660

// errAnswered reports a socket at which a daemon answers.
var errAnswered = errors.New("another daemon answers there")

// adminSocketPlaces returns where an admin socket is looked for: where
// services have theirs, and where users do.
func adminSocketPlaces() []string {
	places := []string{"/run/pdrouter/admin.sock"}
	if uid := os.Getuid(); uid != 0 {
		places = append(places, filepath.Join("/run/user", strconv.Itoa(uid), "pdrouter/admin.sock"))
	}
	return places
}

// openAdminSocket listens at the admin socket. Where any will do and none can
// be had, it says why: a daemon serves without one too.
func openAdminSocket(choice string, open func(path string) (net.Listener, error)) (ln net.Listener, why string, err error) {
	if choice == noSocket {
		return nil, "", nil
	}
	if choice != anySocket {
		ln, err := open(choice)
		return ln, "", err
	}
	var reasons []string
	for _, path := range adminSocketPlaces() {
		ln, err := open(path)
		if err == nil {
			return ln, "", nil
		}
		reasons = append(reasons, err.Error())
	}
	return nil, strings.Join(reasons, "; "), nil
}

// A socketListener listens at a socket, and takes it away when it is closed.
type socketListener struct {
	net.Listener
	path string
	file os.FileInfo
	kept atomic.Bool // it is another process's to take away
}

// listenUnix listens at path, for the owner and the group of this process.
// What a daemon has left there that was killed is replaced. The socket is made
// in a folder that nobody else may enter and then put in place, so that it is
// never there with another mode.
func listenUnix(ctx context.Context, path string) (net.Listener, error) {
	dir := filepath.Dir(path)
	if err := os.Mkdir(dir, 0o755); err != nil && !errors.Is(err, fs.ErrExist) {
		return nil, err
	}
	if err := checkVacant(ctx, path); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	private, err := os.MkdirTemp(dir, ".new")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(private)
	made := filepath.Join(private, "s")
	ln, err := new(net.ListenConfig).Listen(ctx, "unix", made)
	if err != nil {
		return nil, err
	}
	if u, ok := ln.(*net.UnixListener); ok {
		u.SetUnlinkOnClose(false)
	}
	s := &socketListener{Listener: ln, path: path}
	if s.file, err = place(made, path); err != nil {
		_ = ln.Close()
		return nil, err
	}
	return s, nil
}

// place gives a socket its mode and its place.
func place(made, path string) (os.FileInfo, error) {
	if err := os.Chmod(made, socketMode); err != nil {
		return nil, err
	}
	if err := os.Rename(made, path); err != nil {
		return nil, err
	}
	return os.Lstat(path)
}

// checkVacant reports what is at path, unless it is nothing or a socket at
// which nobody answers.
func checkVacant(ctx context.Context, path string) error {
	file, err := os.Lstat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		return err
	case file.Mode()&fs.ModeSocket == 0:
		return errors.New("it is there, and no socket")
	}
	conn, err := new(net.Dialer).DialContext(ctx, "unix", path)
	switch {
	case err == nil:
		_ = conn.Close()
		return errAnswered
	case errors.Is(err, syscall.ECONNREFUSED):
		return nil
	}
	return err
}

// Addr is where the socket is, and not where it was made.
func (s *socketListener) Addr() net.Addr { return &net.UnixAddr{Name: s.path, Net: unixNetwork} }

// Close stops listening and takes the socket away, if it is still ours.
func (s *socketListener) Close() error {
	err := s.Listener.Close()
	if now, gone := os.Lstat(s.path); !s.kept.Load() && gone == nil && os.SameFile(now, s.file) {
		_ = os.Remove(s.path) // nobody answers there any more either way
	}
	return err
}

package doctor

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
)

const (
	// perRequest is how many connections a request has open: the client's, and one
	// to either engine.
	perRequest = 3

	// aside is what else a router has open: listeners, probes, readers, files.
	aside = 256

	// plenty of open files is enough for requests that nothing bounds.
	plenty = 65536
)

// listeners finds whether the router's ports are free, or are its own already.
func (c *Case) listeners(ctx context.Context) []Finding {
	found := &chart{check: Listeners}
	for _, l := range c.Listeners {
		where := "--" + l.Flag
		if path, is := strings.CutPrefix(l.Host, "unix:"); is {
			if _, err := os.Stat(filepath.Dir(path)); err != nil {
				found.note(Fault, where, "make the directory, or name another", "%v", err)
			} else {
				found.note(OK, where, "", "%s can be made", path)
			}
			continue
		}
		at := net.JoinHostPort(l.Host, strconv.Itoa(l.Port))
		ln, err := new(net.ListenConfig).Listen(ctx, "tcp", at)
		if err == nil {
			_ = ln.Close()
		}
		switch {
		case err == nil:
			found.note(OK, where, "", "%s is free", at)
		case errors.Is(err, syscall.EADDRINUSE):
			c.taken(found, where, at, l.Port)
		case errors.Is(err, syscall.EACCES):
			found.note(Warning, where, "take a port above 1023, or let systemd open it (pdrouter.socket)", "%s may be opened by root only", at)
		case errors.Is(err, syscall.EADDRNOTAVAIL):
			found.note(Fault, where, "name an address of this host (ip address)", "%s is no address of this host", l.Host)
		default:
			found.note(Fault, where, "", "%s: %v", at, err)
		}
	}
	return found.all
}

// taken finds who has a port.
func (c *Case) taken(found *chart, where, at string, port int) {
	pid, name := holder(c.Proc, port)
	switch {
	case pid != 0 && pid == c.PID, name == "pdrouter":
		found.note(OK, where, "", "%s is open: the router runs (process %d)", at, pid)
	case pid == 1:
		found.note(OK, where, "", "%s is held by systemd for the router, if a socket unit of its is active", at)
	case pid == 0 && c.PID != 0:
		found.note(OK, where, "", "%s is open, and a router runs (process %d)", at, c.PID)
	case pid == 0:
		found.note(Warning, where, "see who it is as root: ss -ltnp", "%s is taken; by whom cannot be seen by this user", at)
	default:
		found.note(Fault, where, "stop it, or take another port", "%s is taken by %s (process %d)", at, name, pid)
	}
}

// holder returns the process that listens at a port; 0 if that cannot be seen.
func holder(proc string, port int) (pid int, name string) {
	inodes := map[string]bool{}
	for _, table := range []string{"net/tcp", "net/tcp6"} {
		listening(filepath.Join(proc, table), port, inodes)
	}
	links, _ := filepath.Glob(filepath.Join(proc, "[0-9]*/fd/*")) // the pattern is well-formed
	for _, link := range links {
		to, err := os.Readlink(link)
		if err != nil || !inodes[strings.TrimSuffix(strings.TrimPrefix(to, "socket:["), "]")] {
			continue
		}
		dir := filepath.Dir(filepath.Dir(link))
		comm, _ := os.ReadFile(filepath.Join(dir, "comm")) // it may be gone
		pid, _ = strconv.Atoi(filepath.Base(dir))
		return pid, strings.TrimSpace(string(comm))
	}
	return 0, ""
}

// listening adds the inodes of the sockets of a table that listen at a port.
func listening(table string, port int, inodes map[string]bool) {
	f, err := os.Open(table)
	if err != nil {
		return
	}
	defer f.Close()
	const listen, at, state, inode = "0A", 1, 3, 9 // columns of proc(5)
	for lines := bufio.NewScanner(f); lines.Scan(); {
		words := strings.Fields(lines.Text())
		if len(words) > inode && words[state] == listen && strings.HasSuffix(words[at], fmt.Sprintf(":%04X", port)) {
			inodes[words[inode]] = true
		}
	}
}

// limits finds whether the router may have as many files open as it will need.
func (c *Case) limits(ctx context.Context) []Finding {
	found := &chart{check: Limits}
	most, whose, do := c.fileLimit(ctx)
	need := c.MostRequests*perRequest + aside
	switch {
	case c.MostRequests > 0 && most < uint64(need):
		found.note(Fault, whose, do, "%d open files are allowed, and %d requests (--max-concurrent-requests) need %d", most, c.MostRequests, need)
	case c.MostRequests > 0:
		found.note(OK, whose, "", "%d open files are allowed, %d requests need %d", most, c.MostRequests, need)
	case most < plenty:
		found.note(Warning, whose, do, "%d open files are allowed, which is %d requests at a time; nothing bounds them (--max-concurrent-requests)", most, max(int(most)-aside, 0)/perRequest)
	default:
		found.note(OK, whose, "", "%d open files are allowed", most)
	}
	return found.all
}

// fileLimit returns how many files the router may have open: the one that runs,
// else its unit, else who asks.
func (c *Case) fileLimit(ctx context.Context) (most uint64, whose, do string) {
	const inUnit = "systemctl edit pdrouter: [Service] LimitNOFILE=1048576"
	if n, err := limitOf(c.Proc, c.PID); c.PID != 0 && err == nil {
		return n, fmt.Sprintf("process %d", c.PID), inUnit
	}
	if u, ok := c.unit(ctx); ok && u.FileLimit > 0 {
		return u.FileLimit, u.Name, inUnit
	}
	var limit syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil {
		return 0, "this shell", ""
	}
	return limit.Max, "this shell", "ulimit -Hn 1048576 for a router that is started by hand; LimitNOFILE= in a unit"
}

// limitOf returns the hard limit of a process: the runtime takes what it may have.
func limitOf(proc string, pid int) (uint64, error) {
	text, err := os.ReadFile(filepath.Join(proc, strconv.Itoa(pid), "limits"))
	if err != nil {
		return 0, err
	}
	for line := range strings.Lines(string(text)) {
		if rest, ok := strings.CutPrefix(line, "Max open files"); ok {
			words := strings.Fields(rest)
			if len(words) < 2 {
				break
			}
			return strconv.ParseUint(words[1], 10, 64)
		}
	}
	return 0, fs.ErrNotExist
}

// files finds which files with secrets others may read.
func (c *Case) files() []Finding {
	found := &chart{check: Files}
	for _, s := range c.Secrets {
		info, err := os.Stat(s.Path)
		const othersRead = 0o004
		switch {
		case err != nil:
			found.note(Unknown, s.Path, "", "%v", err)
		case info.Mode().Perm()&othersRead == 0:
			found.note(OK, s.Path, "", "others do not read %s (mode %04o)", s.Holds, info.Mode().Perm())
		case s.Grave:
			found.note(Fault, s.Path, "chmod o= "+s.Path+"; hand it to the service with LoadCredential=", "every user of this host may read %s (mode %04o)", s.Holds, info.Mode().Perm())
		default:
			found.note(Warning, s.Path, "chmod o= "+s.Path+", and let the service's user or group read it, or hand it over with LoadCredential=", "every user of this host may read %s (mode %04o)", s.Holds, info.Mode().Perm())
		}
	}
	return found.all
}

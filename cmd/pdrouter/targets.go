package main

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"pdrouter/workers"

	"go.uber.org/zap"
)

// targetsInterval is the time between two looks at whether the file is what it
// should be if nothing is heard: so a worker's models are in it, and a disk that
// was full is tried again.
const targetsInterval = 5 * time.Second

// targets keeps a file in which a Prometheus finds the engines of a registry,
// as its file_sd_configs read it. Several events in a row make one writing.
type targets struct {
	path     string
	registry *workers.Registry
	log      *zap.Logger
	told     chan struct{} // holds one: something has changed

	written []byte // what is in the file
	fault   string // why what should be is not
}

// newTargets returns what keeps the file of --prometheus-sd-file; nil: there is
// none.
func (d *daemon) newTargets() *targets {
	if d.cfg.TargetsFile == "" {
		return nil
	}
	return &targets{path: d.cfg.TargetsFile, registry: d.registry, log: d.log, told: make(chan struct{}, 1)}
}

// checkTargets reports why the file of --prometheus-sd-file could not be kept.
func (c Config) checkTargets() error {
	if c.TargetsFile != "" && filepath.Ext(c.TargetsFile) != ".json" {
		return fmt.Errorf("prometheus-sd-file: %q: Prometheus reads JSON only from files whose names end with .json", c.TargetsFile)
	}
	return checkKept("prometheus-sd-file", c.TargetsFile)
}

// heed notes that something has happened to a worker. It does not block.
func (t *targets) heed() {
	if t == nil {
		return
	}
	select {
	case t.told <- struct{}{}:
	default:
	}
}

// run writes the file whenever it is not what it should be, until ctx ends. It
// stays there then: the engines do.
func (t *targets) run(ctx context.Context) error {
	tick := time.NewTicker(targetsInterval)
	defer tick.Stop()
	for {
		t.step()
		select {
		case <-ctx.Done():
			return nil
		case <-t.told:
		case <-tick.C:
		}
	}
}

// step writes the file if it is not what it should be, and logs what is wrong,
// once.
func (t *targets) step() {
	text, err := targetsOf(t.registry.Statuses())
	if err == nil && !bytes.Equal(text, t.written) {
		if err = replaceFile(t.path, text); err == nil {
			t.written = text
		}
	}
	fault := oneLine(err)
	if fault != "" && fault != t.fault {
		t.log.Warn("file of engines for Prometheus not written", zap.String("file", t.path), zap.String("reason", fault),
			zap.String("remedy", "see that its directory exists, is writable and has room; it is tried again every 5 s"))
	}
	t.fault = fault
}

// A targetGroup is an element of the file; Prometheus names its keys.
type targetGroup struct {
	Targets []string          `json:"targets"`
	Labels  map[string]string `json:"labels"`
}

// targetsOf returns what the file says of workers. Those behind unix sockets are
// left out: Prometheus cannot reach them.
func targetsOf(all []workers.Status) ([]byte, error) {
	type key struct {
		url  string
		role workers.Role
	}
	groups, known := []targetGroup{}, map[key]int{}
	for _, s := range all {
		u, err := url.Parse(s.Worker.URL)
		if err != nil || u.Scheme == "unix" {
			continue
		}
		port := cmp.Or(u.Port(), map[string]string{"http": "80", "https": "443"}[u.Scheme])
		g := targetGroup{[]string{net.JoinHostPort(u.Hostname(), port)}, map[string]string{
			"worker": s.Worker.URL, "role": s.Worker.Role.String(), "__scheme__": u.Scheme,
		}}
		if len(s.Facts.Models) > 0 {
			g.Labels["model"] = strings.Join(s.Facts.Models, ",")
		}
		k := key{s.Worker.URL, s.Worker.Role}
		if i, twice := known[k]; twice { // removed and added again, see workerStates
			groups[i] = g
			continue
		}
		known[k] = len(groups)
		groups = append(groups, g)
	}
	text, err := json.MarshalIndent(groups, "", "  ")
	return append(text, '\n'), err
}

// replaceFile makes text the contents of a file that everybody may read, whatever
// the umask. Whoever reads it sees all of it or what was there before.
func replaceFile(path string, text []byte) (err error) {
	made := filepath.Join(filepath.Dir(path), "."+filepath.Base(path)+".new")
	f, err := os.OpenFile(made, os.O_WRONLY|os.O_CREATE|os.O_TRUNC|syscall.O_NOFOLLOW, 0o644)
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			_ = os.Remove(made)
		}
	}()
	_, err = f.Write(text)
	if err = errors.Join(err, f.Chmod(0o644), f.Close()); err != nil {
		return err
	}
	return os.Rename(made, path)
}

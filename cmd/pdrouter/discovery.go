package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"pdrouter/metrics"
	"pdrouter/workers"

	"github.com/fsnotify/fsnotify"
	"github.com/goccy/go-yaml/token"
	"go.uber.org/zap"
)

// The words for --discovery-provider.
const (
	fromFile   = "file"
	kubernetes = "kubernetes"
)

// writeTime is how long a file is left alone after a change of it or of what is
// beside it, so that it is not read while it is written.
const writeTime = 100 * time.Millisecond

// A discovery keeps a registry in step with a file of workers. A version of the
// file with any fault is refused as a whole, and the workers stay as they were.
// Workers that did not come from the file are never touched.
type discovery struct {
	registry *workers.Registry
	met      *metrics.Metrics
	log      *zap.Logger
	anew     chan struct{} // another file is to be read, or at other times

	mu    sync.Mutex // guards the following
	path  string     // empty: there is no file
	every time.Duration
	taken []byte       // the version of the file that is in force
	known []discovered // the workers that came from it
	fault string       // what is wrong with the version after it
}

// discovered is a worker as the file has it; the registry adds keys to Specs.
type discovered struct {
	id   string
	spec workers.Spec
}

func newDiscovery(cfg Config, registry *workers.Registry, met *metrics.Metrics, log *zap.Logger) *discovery {
	d := &discovery{registry: registry, met: met, log: log, anew: make(chan struct{}, 1), every: cfg.DiscoveryInterval}
	if cfg.DiscoveryProvider == fromFile {
		d.path = cfg.DiscoveryFile
	}
	return d
}

// run reads the file whenever it may have changed, until ctx ends. Directories
// are watched and not the file: it is replaced by a rename, and a Kubernetes
// ConfigMap by that of a symbolic link beside it.
func (d *discovery) run(ctx context.Context) error {
	for path, _ := d.place(); path == ""; path, _ = d.place() {
		select {
		case <-ctx.Done():
			return nil
		case <-d.anew:
		}
	}
	watcher, err := fsnotify.NewWatcher()
	if err != nil {
		d.log.Warn("discovery file cannot be watched, it is read in intervals", zap.Error(err))
		watcher = nil
	}
	var (
		events chan fsnotify.Event
		faults chan error
	)
	if watcher != nil {
		defer watcher.Close()
		events, faults = watcher.Events, watcher.Errors
	}
	d.watch(watcher)
	_, every := d.place()
	fallback := time.NewTicker(every)
	defer fallback.Stop()
	written := time.NewTimer(0) // there may have been a change since the first reading
	defer written.Stop()
	waiting := true
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-events:
			if !waiting {
				written.Reset(writeTime)
				waiting = true
			}
			continue
		case err := <-faults:
			d.log.Warn("watching the discovery file", zap.Error(err))
		case <-written.C:
			waiting = false
		case <-fallback.C:
		case <-d.anew:
			_, every := d.place()
			fallback.Reset(every)
		}
		d.watch(watcher) // first, for the file may be in another directory now, or its directory be a new one
		d.step()
	}
}

// watch watches the directory of the file, and that of what it is a link to.
// What cannot be watched is read in intervals.
func (d *discovery) watch(watcher *fsnotify.Watcher) {
	if watcher == nil {
		return
	}
	path, _ := d.place()
	if path == "" {
		return
	}
	_ = watcher.Add(filepath.Dir(path))
	if target, err := filepath.EvalSymlinks(path); err == nil {
		_ = watcher.Add(filepath.Dir(target))
	}
}

// step reads the file and logs what is wrong with it, once.
func (d *discovery) step() {
	d.mu.Lock()
	defer d.mu.Unlock()
	fault := ""
	if err := d.readLocked(); err != nil {
		fault = strings.Join(faultLines(err), "; ")
	}
	if fault != "" && fault != d.fault {
		d.log.Warn("discovery file refused, the workers stay as they were", zap.Int("workers", len(d.known)), zap.String("why", fault))
	}
	d.fault = fault
}

// read reads the file and takes it, if there is one and it has changed.
func (d *discovery) read() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.readLocked()
}

func (d *discovery) readLocked() error {
	if d.path == "" {
		return nil
	}
	text, err := os.ReadFile(d.path)
	if err != nil {
		return fmt.Errorf("discovery-file: %w", err)
	}
	if d.taken != nil && bytes.Equal(text, d.taken) {
		return nil
	}
	specs, err := parseWorkers(d.path, text)
	if err != nil {
		return err
	}
	if err := d.takeLocked(specs); err != nil {
		return fmt.Errorf("%s: %w", d.path, err)
	}
	d.taken = text
	return nil
}

// takeLocked makes specs the workers that come from the file.
func (d *discovery) takeLocked(specs []workers.Spec) error {
	// Those that somebody else has removed are not ours any more.
	d.known = slices.DeleteFunc(d.known, func(k discovered) bool {
		s, ok := d.registry.Get(k.id)
		return !ok || s.Removed
	})
	var stay []discovered
	var remove []string
	for _, k := range d.known {
		if slices.Contains(specs, k.spec) {
			stay = append(stay, k)
		} else {
			remove = append(remove, k.id)
		}
	}
	add := slices.DeleteFunc(slices.Clone(specs), func(s workers.Spec) bool {
		return slices.ContainsFunc(stay, func(k discovered) bool { return k.spec == s })
	})
	began := time.Now()
	added, err := d.registry.Change(remove, add)
	if err != nil {
		d.met.NotDiscovered(len(add))
		return err
	}
	for i, w := range added {
		stay = append(stay, discovered{w.ID, add[i]})
	}
	d.known = stay
	d.met.Discovered(len(add), len(remove), len(stay), time.Since(began))
	d.log.Info("discovery file taken", zap.Int("workers", len(stay)), zap.Int("added", len(add)), zap.Int("removed", len(remove)))
	return nil
}

// fleet returns c.Workers with those of the discovery file among them.
func (c Config) fleet() (workers.Config, error) {
	fleet := c.Workers
	what, err := find(c)
	fleet.Specs = slices.Concat(fleet.Specs, what.specs)
	return fleet, err
}

// checkDiscovery reports what does not go together.
func (c Config) checkDiscovery() error {
	switch {
	case c.DiscoveryProvider == fromFile && c.DiscoveryFile == "":
		return errors.New("discovery-provider: file needs --discovery-file")
	case c.DiscoveryProvider == "" && c.DiscoveryFile != "":
		return errors.New("discovery-file: give --discovery-provider file too")
	case c.DiscoveryInterval <= 0:
		return errors.New("discovery-check-interval-secs: must be above 0")
	}
	return nil
}

// parseWorkers returns the workers that text, the contents of path, lists, or
// every fault with its line. Both lists must be there, empty ones too: a file
// that was cut short is no order to remove what its end had.
func parseWorkers(path string, text []byte) ([]workers.Spec, error) {
	var (
		specs []workers.Spec
		lines []int // where they stand
		known int   // faults before the present worker
	)
	in := &intake{given: map[string]bool{}, settings: []setting{
		{name: "prefill", value: &workerList{&specs, workers.Prefill}},
		{name: "decode", value: &workerList{&specs, workers.Decode}},
	}}
	in.noted = func(t *token.Token) {
		sound, line := len(in.faults) == known, 0
		if t != nil && t.Position != nil {
			line = t.Position.Line
		}
		for i := len(lines); i < len(specs); i++ {
			lines = append(lines, line)
			if err := specs[i].Validate(); err != nil && sound {
				in.faults = append(in.faults, placed(path, t, err.Error()))
			}
			if first := slices.IndexFunc(specs[:i], func(s workers.Spec) bool { return s.Role == specs[i].Role && s.URL == specs[i].URL }); first >= 0 {
				in.faults = append(in.faults, placed(path, t, fmt.Sprintf("%s %q: said already in line %d", specs[i].Role, specs[i].URL, lines[first])))
			}
		}
		known = len(in.faults)
	}
	if err := in.readYAML(path, text); err != nil {
		return nil, err
	}
	for _, s := range in.settings {
		if !in.given[s.name] {
			in.faults = append(in.faults, fmt.Errorf("%s: no list %q; write %s: [] if there are none", path, s.name, s.name))
		}
	}
	if len(in.faults) > 0 {
		return nil, errors.Join(in.faults...)
	}
	return specs, nil
}

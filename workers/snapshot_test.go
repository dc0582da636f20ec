package workers

import (
	"errors"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

// rememberer is a Chooser that remembers what it is told to.
type rememberer struct {
	first

	mu      sync.Mutex
	kind    uint64
	changes uint64
	overall Memory
	known   map[string]Memory // by ID
	copied  func()            // called while a worker's is copied
}

func (m *rememberer) Overall() Overall {
	m.mu.Lock()
	defer m.mu.Unlock()
	return Overall{m.overall, m.kind, m.changes}
}

func (m *rememberer) Adopt(all Memory) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.overall = all
}

func (m *rememberer) Remember(_ int, w *Worker, dst []uint64) Memory {
	if m.copied != nil {
		m.copied()
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	known := m.known[w.ID]
	known.Blocks = append(dst, known.Blocks...)
	return known
}

func (m *rememberer) Recall(_ int, w *Worker, known Memory) int {
	m.mu.Lock()
	defer m.mu.Unlock()
	known.Blocks = slices.Clone(known.Blocks)
	m.known[w.ID] = known
	m.changes++
	return len(known.Blocks)
}

// learn makes m know blocks of a worker.
func (m *rememberer) learn(id string, blocks ...uint64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.known[id] = Memory{Blocks: blocks, Learnt: map[string][]float64{"kept": {0.5}}}
	m.changes++
}

// knows returns how many blocks are known of each worker.
func (m *rememberer) knows() map[string]int {
	m.mu.Lock()
	defer m.mu.Unlock()
	n := map[string]int{}
	for id, k := range m.known {
		n[id] = len(k.Blocks)
	}
	return n
}

// keeping is a registry of two workers of either role, and what it keeps.
type keeping struct {
	*Keeper
	chooser  *rememberer
	registry *Registry
	events   diary

	mu   sync.Mutex
	told []SnapshotEvent
}

func (k *keeping) note(e SnapshotEvent) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.told = append(k.told, e)
}

// take returns what became of the file since the last call.
func (k *keeping) take() []SnapshotEvent {
	k.mu.Lock()
	defer k.mu.Unlock()
	told := k.told
	k.told = nil
	return told
}

// keepingIn returns one that has loaded a file. Nobody has told a report yet.
func keepingIn(t *testing.T, file string) *keeping {
	t.Helper()
	k := &keeping{chooser: &rememberer{kind: 1, known: map[string]Memory{}}}
	facts := Facts{Dialect: "vllm-nixl", Models: []string{"m"}, Version: "1"}
	k.registry = readied(t, k.chooser, facts, facts)
	k.registry.observe = k.events.note
	k.Keeper = NewKeeper(k.registry, KeeperConfig{File: file, MaxBlocks: 1000, Interval: 30 * time.Second}, k.note)
	k.Load()
	return k
}

// report has all workers tell who they are: processes that started then.
func (k *keeping) report(started time.Time) {
	for _, w := range k.registry.all {
		r := unknown()
		r.At, r.Started = time.Now(), started
		w.report = r
		k.registry.recall(w, r)
	}
}

// last returns what became of the file last.
func (k *keeping) last() SnapshotEvent {
	told := k.take()
	if len(told) == 0 {
		return SnapshotEvent{}
	}
	e := told[len(told)-1]
	e.Took = 0
	return e
}

func TestKeeperRemembers(t *testing.T) {
	file := filepath.Join(t.TempDir(), "index")
	started := time.Now().Add(-time.Hour)
	a := keepingIn(t, file)
	if e := a.last(); !errors.Is(e.Err, fs.ErrNotExist) || e.Written {
		t.Errorf("event = %+v, want that there is none yet", e)
	}
	a.report(started)
	a.chooser.overall = Memory{Blocks: []uint64{7}, Learnt: map[string][]float64{"speed": {1, 2}}}
	a.chooser.learn("prefill-0", 1, 2, 3)
	a.chooser.learn("decode-1", 4)
	a.save()
	if e := a.last(); e.Err != nil || !e.Written || e.Workers != 2 || e.Blocks != 4 || e.Bytes == 0 {
		t.Errorf("event = %+v, want 4 blocks of 2 workers", e)
	}

	t.Run("all of it", func(t *testing.T) {
		b := keepingIn(t, file)
		if e := b.last(); e.Err != nil || e.Written || e.Workers != 2 || e.Blocks != 4 {
			t.Errorf("event = %+v, want 4 blocks of 2 workers", e)
		}
		if !reflect.DeepEqual(b.chooser.overall, a.chooser.overall) {
			t.Errorf("of all is known %v, want %v", b.chooser.overall, a.chooser.overall)
		}
		if len(b.chooser.knows()) != 0 {
			t.Error("something is known of workers that have not told yet who they are")
		}
		b.report(started)
		if !reflect.DeepEqual(b.chooser.known, a.chooser.known) {
			t.Errorf("known is %v, want %v", b.chooser.known, a.chooser.known)
		}
		lines := b.events.take()
		if len(lines) != 2 || !strings.HasPrefix(lines[0], "recalled prefill-0: ready to ready, 3 blocks, as of 0s ago") {
			t.Errorf("events = %q", lines)
		}
		b.report(started.Add(time.Minute)) // whoever restarts later is not the Keeper's concern
		if lines := b.events.take(); len(lines) != 0 {
			t.Errorf("events = %q after the first reports", lines)
		}
	})
	t.Run("not of engines that have been restarted", func(t *testing.T) {
		b := keepingIn(t, file)
		b.report(started.Add(time.Minute))
		if n := b.chooser.knows(); len(n) != 0 {
			t.Errorf("known is %v, want nothing", n)
		}
		if lines := b.events.take(); len(lines) != 2 || !strings.Contains(lines[0], "unrecalled prefill-0") || !strings.Contains(lines[0], "it runs since") {
			t.Errorf("events = %q", lines)
		}
	})
	t.Run("not of blocks that are made otherwise", func(t *testing.T) {
		b := keepingIn(t, file)
		b.chooser.kind = 2
		b.pending = map[string]remembered{}
		b.Load()
		b.report(started)
		if n, e := b.chooser.knows(), b.last(); len(n) != 0 || !errors.Is(e.Err, errKind) || e.Workers != 0 {
			t.Errorf("known is %v, event = %+v", n, e)
		}
	})
	t.Run("on trust where reports are not read", func(t *testing.T) {
		b := keepingIn(t, file)
		b.registry.cfg.NoReports = true
		for _, w := range b.registry.all {
			b.registry.visit(t.Context(), w)
		}
		if n := b.chooser.knows(); !maps.Equal(n, map[string]int{"prefill-0": 3, "decode-1": 1}) {
			t.Errorf("known is %v, want all", n)
		}
	})
}

// TestKeeperWaitsForWorkers: what is known of workers that have not come yet
// stays in the file, however often the router is restarted, for a day.
func TestKeeperWaitsForWorkers(t *testing.T) {
	file := filepath.Join(t.TempDir(), "index")
	started := time.Now()
	a := keepingIn(t, file)
	a.report(started)
	a.chooser.learn("prefill-0", 1, 2, 3)
	a.chooser.learn("prefill-1", 4, 5)
	a.save()

	b := keepingIn(t, file) // only one comes, before the next restart
	b.registry.recall(b.registry.all[2], b.reportOf(2, started))
	b.registry.all[0].removed = true // and one is not there any more
	b.save()
	if e := b.last(); e.Err != nil || e.Blocks != 5 {
		t.Fatalf("event = %+v, want all 5 blocks", e)
	}
	c := keepingIn(t, file)
	c.report(started)
	if n := c.chooser.knows(); !maps.Equal(n, map[string]int{"prefill-0": 3, "prefill-1": 2}) {
		t.Errorf("known is %v, want what was known of both", n)
	}

	d := keepingIn(t, file)
	for key, m := range d.pending {
		m.At = m.At.Add(-forgetAfter)
		d.pending[key] = m
	}
	d.registry.all = nil
	d.chooser.changes++
	d.save()
	if e := d.last(); e.Err != nil || e.Blocks != 0 || len(d.pending) != 0 {
		t.Errorf("event = %+v, %d are waited for, want nothing after a day", e, len(d.pending))
	}
}

// reportOf is a report of the worker with that number.
func (k *keeping) reportOf(i int, started time.Time) Report {
	r := unknown()
	r.At, r.Started = time.Now(), started
	k.registry.all[i].report = r
	return r
}

// TestKeeperWritesChanges: the file is written if something has changed, and
// what failed is tried again, and told once.
func TestKeeperWritesChanges(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "state")
	file := filepath.Join(dir, "index")
	a := keepingIn(t, file)
	a.take()
	want := func(what string, so func(told []SnapshotEvent) bool) {
		t.Helper()
		a.save()
		a.save()
		if told := a.take(); !so(told) {
			t.Errorf("%s: events = %+v", what, told)
		}
	}
	none := func(told []SnapshotEvent) bool { return len(told) == 0 }
	want("with nothing to write", none)
	a.chooser.learn("prefill-0", 1)
	want("without a directory", func(told []SnapshotEvent) bool {
		return len(told) == 1 && errors.Is(told[0].Err, fs.ErrNotExist) && told[0].Written
	})
	want("still without it", none)
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	want("with one", func(told []SnapshotEvent) bool {
		return len(told) == 1 && told[0].Err == nil && told[0].Again && told[0].Blocks == 1
	})
	want("with nothing new", none)
	a.chooser.learn("prefill-0", 1, 2)
	want("with more blocks", func(told []SnapshotEvent) bool {
		return len(told) == 1 && told[0].Err == nil && !told[0].Again && told[0].Blocks == 2
	})
}

// TestKeeperWithoutMemory does nothing, neither with a file that is there.
func TestKeeperWithoutMemory(t *testing.T) {
	file := filepath.Join(t.TempDir(), "snapshot")
	k := NewKeeper(readied(t, first{}), KeeperConfig{File: file}, func(e SnapshotEvent) { t.Errorf("told %+v", e) })
	k.Load()
	k.save()
	if _, err := os.Stat(file); err == nil {
		t.Error("there is a file of what remembers nothing")
	}
}

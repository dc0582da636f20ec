package workers

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
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

func (m *rememberer) Recall(_ int, w *Worker, known Memory) {
	m.mu.Lock()
	defer m.mu.Unlock()
	known.Blocks = slices.Clone(known.Blocks)
	m.known[w.ID] = known
	m.changes++
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
	told     []SnapshotEvent
}

// keepingIn returns one that has loaded a file. Nobody has told a report yet.
func keepingIn(t *testing.T, file string) *keeping {
	t.Helper()
	k := &keeping{chooser: &rememberer{kind: 1, known: map[string]Memory{}}}
	facts := Facts{Dialect: "vllm-nixl", Models: []string{"m"}, Version: "1"}
	k.registry = readied(t, k.chooser, facts, facts)
	k.registry.observe = k.events.note
	k.Keeper = NewKeeper(k.registry, KeeperConfig{File: file, MaxBlocks: 1000, Interval: 30 * time.Second}, func(e SnapshotEvent) { k.told = append(k.told, e) })
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

// last returns what was told last.
func (k *keeping) last() SnapshotEvent {
	if len(k.told) == 0 {
		return SnapshotEvent{}
	}
	e := k.told[len(k.told)-1]
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
		if n := b.chooser.knows(); len(n) != 0 || !errors.Is(b.last().Err, errKind) || b.last().Workers != 0 {
			t.Errorf("known is %v, event = %+v", n, b.last())
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
	a.told = nil
	a.save()
	if len(a.told) != 0 {
		t.Errorf("events = %+v with nothing to write", a.told)
	}
	a.chooser.learn("prefill-0", 1)
	a.save()
	a.save()
	if len(a.told) != 1 || !errors.Is(a.told[0].Err, fs.ErrNotExist) || !a.told[0].Written {
		t.Errorf("events = %+v, want one that there is no directory", a.told)
	}
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	a.save()
	a.save()
	if len(a.told) != 2 || a.told[1].Err != nil || !a.told[1].Again {
		t.Errorf("events = %+v, want a further one that it is written again", a.told)
	}
	a.chooser.learn("prefill-0", 1, 2)
	a.save()
	if e := a.last(); len(a.told) != 3 || e.Again || e.Blocks != 2 {
		t.Errorf("events = %+v", a.told)
	}
}

// TestKeeperRuns: twice a minute, and at the end.
func TestKeeperRuns(t *testing.T) {
	file := filepath.Join(t.TempDir(), "index")
	synctest.Test(t, func(t *testing.T) {
		a := keepingIn(t, file)
		a.told = nil
		ctx, stop := context.WithCancel(t.Context())
		var ended sync.WaitGroup
		ended.Go(func() {
			if err := a.Run(ctx); err != nil {
				t.Error(err)
			}
		})
		want := func(n int, after time.Duration) {
			t.Helper()
			time.Sleep(after)
			synctest.Wait()
			if len(a.told) != n {
				t.Errorf("it was written %d times, want %d", len(a.told), n)
			}
		}
		a.chooser.learn("prefill-0", 1)
		want(0, 29*time.Second)
		want(1, 2*time.Second)
		want(1, time.Minute)
		a.chooser.learn("prefill-0", 2)
		want(2, 30*time.Second)
		a.chooser.learn("prefill-0", 3)
		stop()
		ended.Wait()
		want(3, 0)
	})
	s, faults := loadSnapshot(file, 1000)
	if len(faults) > 0 || !slices.Equal(s.workers[0].Blocks, []uint64{3}) {
		t.Errorf("the file has %+v, %v, want what was known in the end", s, faults)
	}
	if b := keepingIn(t, file); b.last().Workers != 0 { // in the bubble it is the year 2000
		t.Errorf("event = %+v, want nothing of a file that is years old", b.last())
	}
}

// TestKeeperDoesNotWaitForADisk: one that hangs holds up neither shutdown nor
// more than one writer.
func TestKeeperDoesNotWaitForADisk(t *testing.T) {
	for _, tt := range []struct {
		name  string
		first time.Duration // until ctx ends
	}{{"that hangs at the end", time.Second}, {"that has hung for long", 5 * time.Minute}} {
		t.Run(tt.name, func(t *testing.T) {
			file := filepath.Join(t.TempDir(), "index")
			synctest.Test(t, func(t *testing.T) {
				a := keepingIn(t, file)
				a.told = nil
				hang := make(chan struct{})
				writers := 0
				a.chooser.copied = sync.OnceFunc(func() { writers++; <-hang })
				a.chooser.learn("prefill-0", 1)
				ctx, stop := context.WithTimeout(t.Context(), tt.first)
				defer stop()
				began := time.Now()
				if err := a.Run(ctx); err != nil {
					t.Error(err)
				}
				if took := time.Since(began) - tt.first; took != lastSave {
					t.Errorf("it ended %v after it should, want %v", took, lastSave)
				}
				if len(a.told) != 1 || !errors.Is(a.told[0].Err, errSlow) || writers != 1 {
					t.Errorf("events = %+v of %d writers, want one that it is slow", a.told, writers)
				}
				close(hang)
				synctest.Wait()
			})
		})
	}
}

// TestTwoKeepersOfOneFile: the last one wins, and whoever reads finds a whole
// file at any time.
func TestTwoKeepersOfOneFile(t *testing.T) {
	file := filepath.Join(t.TempDir(), "index")
	both := []*keeping{keepingIn(t, file), keepingIn(t, file)}
	var writing sync.WaitGroup
	for i, k := range both {
		k.told = nil
		writing.Go(func() {
			for n := range 50 {
				k.chooser.learn("prefill-0", make([]uint64, 100*i+100)...)
				k.chooser.learn("prefill-1", uint64(n))
				k.save()
			}
		})
	}
	done := make(chan struct{})
	go func() { writing.Wait(); close(done) }()
	for reads := 0; ; reads++ {
		s, faults := loadSnapshot(file, 1000)
		if s != nil && len(s.workers) != 2 || len(faults) > 0 && !errors.Is(faults[0], fs.ErrNotExist) {
			t.Errorf("while two write, a reader finds %+v, %v", s, faults)
		}
		select {
		case <-done:
			for _, k := range both {
				if slices.ContainsFunc(k.told, func(e SnapshotEvent) bool { return e.Err != nil }) {
					t.Errorf("events = %+v", k.told)
				}
			}
			if got := files(t, filepath.Dir(file)); got != "index" {
				t.Errorf("files = %q, want one", got)
			}
			return
		default:
		}
	}
}

func TestNoKeeperWithoutMemory(t *testing.T) {
	if k := NewKeeper(readied(t, first{}), KeeperConfig{}, func(SnapshotEvent) {}); k != nil {
		t.Error("there is a Keeper of what remembers nothing")
	}
}

// BenchmarkSnapshot shows what it takes to write down 500 000 blocks of each of
// eight workers, and to read them.
func BenchmarkSnapshot(b *testing.B) {
	blocks := make([]uint64, 500_000)
	at := time.Now()
	file := filepath.Join(b.TempDir(), "index")
	write := func() error {
		return replaceFile(file, func(to io.Writer) error {
			w := newSnapshotWriter(to)
			err := errors.Join(w.header(), w.section(kindOverall, overallHead{}, nil))
			for range 8 {
				err = errors.Join(err, w.section(kindWorker, workerHead{identity: identity{At: at}}, blocks))
			}
			return errors.Join(err, w.section(kindEnd, struct{}{}, nil))
		})
	}
	b.Run("write", func(b *testing.B) {
		for b.Loop() {
			if err := write(); err != nil {
				b.Fatal(err)
			}
		}
		about, err := os.Stat(file)
		if err != nil {
			b.Fatal(err)
		}
		b.ReportMetric(float64(about.Size()), "bytes")
	})
	b.Run("read", func(b *testing.B) {
		for b.Loop() {
			if _, faults := loadSnapshot(file, 4<<20); len(faults) > 0 {
				b.Fatal(faults)
			}
		}
	})
}

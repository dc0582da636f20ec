package workers

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// TestKeeperRuns: twice a minute, and at the end.
func TestKeeperRuns(t *testing.T) {
	file := filepath.Join(t.TempDir(), "index")
	synctest.Test(t, func(t *testing.T) {
		a := keepingIn(t, file)
		a.take()
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
			if told := a.take(); len(told) != n {
				t.Errorf("it was written %d times, want %d", len(told), n)
			}
		}
		a.chooser.learn("prefill-0", 1)
		want(0, 29*time.Second)
		want(1, 2*time.Second)
		want(0, time.Minute)
		a.chooser.learn("prefill-0", 2)
		want(1, 30*time.Second)
		a.chooser.learn("prefill-0", 3)
		stop()
		ended.Wait()
		want(1, 0)
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
				a.take()
				hang := make(chan struct{})
				var writers atomic.Int32
				a.chooser.copied = func() { writers.Add(1); <-hang }
				a.chooser.learn("prefill-0", 1)
				ctx, stop := context.WithTimeout(t.Context(), tt.first)
				defer stop()
				began := time.Now()
				if err := a.Run(ctx); err != nil {
					t.Error(err)
				}
				synctest.Wait()
				if took := time.Since(began) - tt.first; took != lastSave {
					t.Errorf("it ended %v after it should, want %v", took, lastSave)
				}
				if told := a.take(); len(told) != 1 || !errors.Is(told[0].Err, errSlow) || writers.Load() != 1 {
					t.Errorf("events = %+v of %d writers, want one that it is slow", told, writers.Load())
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
		k.take()
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
				if slices.ContainsFunc(k.take(), func(e SnapshotEvent) bool { return e.Err != nil }) {
					t.Error("one of them could not write")
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

// writesFor is the variable by which this test binary is told to write a
// snapshot over and over.
const writesFor = "PDROUTER_TEST_WRITES"

// TestKilledWhileWriting: whenever a router is killed, the file is whole.
func TestKilledWhileWriting(t *testing.T) {
	if file := os.Getenv(writesFor); file != "" {
		k := keepingIn(t, file)
		for n := uint64(0); ; n++ {
			k.chooser.learn("prefill-0", slices.Repeat([]uint64{n}, 900)...)
			k.save()
		}
	}
	file := filepath.Join(t.TempDir(), "index")
	for i := range 10 {
		cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestKilledWhileWriting$")
		cmd.Env = append(os.Environ(), writesFor+"="+file, "GORACE=atexit_sleep_ms=0")
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		var before time.Time
		eventually(t, "a file that is written", func() bool {
			about, err := os.Stat(file)
			if err != nil {
				return false
			}
			first := before.IsZero()
			if first {
				before = about.ModTime()
			}
			return !first && about.ModTime() != before
		})
		pause(time.Duration(i) * time.Millisecond)
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		s, faults := loadSnapshot(file, 1000)
		if s == nil || len(faults) > 0 || len(s.workers[0].Blocks) != 900 || len(slices.Compact(s.workers[0].Blocks)) != 1 {
			t.Fatalf("after a kill the file has %+v, %v", s, faults)
		}
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

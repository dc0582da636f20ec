package workers

import (
	"context"
	"testing"
	"testing/synctest"
	"time"
)

// A pool is a Space of so many bytes of prompts.
type pool int

func (p pool) Has(need *Need) bool                   { return need.Prompt.Bytes <= int(p) }
func (p pool) KV() (used, capacity float64, ok bool) { return 0, 0, false }

// fill gives decode workers so much free KV space.
func fill(r *Registry, free int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, w := range r.all {
		if w.Role == Decode {
			w.load.Space = pool(free)
		}
	}
	r.serveAllLocked()
}

func TestLargeRequestsAreNotPassedForEver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := admitting(t, 1, least{}, func(*Admission) {})
		first := come(t, r, "", Need{})
		fill(r, 50)
		large := come(t, r, "", Need{Prompt: Prompt{Bytes: 100}})
		if small := come(t, r, "", Need{Prompt: Prompt{Bytes: 10}}); len(small.came) != 1 {
			t.Error("a small request does not pass a large one that has no room")
		}
		time.Sleep(overtaking)
		if small := come(t, r, "", Need{Prompt: Prompt{Bytes: 10}}); len(small.came) != 0 {
			t.Error("a small request passes a large one that has waited for long")
		}
		fill(r, 100)
		synctest.Wait()
		if len(first.came) != 1 || len(large.came) != 1 {
			t.Error("the large request does not get the room that came free")
		}
	})
}

// TestOneWorkerIsKept: for a request that has no room for long, one decode worker
// is kept; the others serve whoever comes.
func TestOneWorkerIsKept(t *testing.T) {
	for name, chooser := range map[string]Chooser{"chosen one by one": least{}, "planned": &keeper{free: 1 << 30, byRoom: true}} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := admitting(t, 2, chooser, func(*Admission) {})
				fill(r, 50)
				large := come(t, r, "", Need{Prompt: Prompt{Bytes: 100}})
				time.Sleep(overtaking)
				used := map[*Worker]bool{}
				for range 6 {
					small := come(t, r, "", Need{Prompt: Prompt{Bytes: 10}})
					if len(small.came) != 1 {
						t.Fatal("a small request waits, though one decode worker is kept for nobody")
					}
					used[small.pair.Decode.Worker] = true
				}
				if len(used) != 1 {
					t.Errorf("small requests went to %d decode workers, want one: the other is kept", len(used))
				}
				fill(r, 100)
				synctest.Wait()
				if len(large.came) != 1 || used[large.pair.Decode.Worker] {
					t.Error("the large request does not get the worker that was kept for it")
				}
				for range 4 {
					small := come(t, r, "", Need{Prompt: Prompt{Bytes: 10}})
					used[small.pair.Decode.Worker] = true
				}
				if len(used) != 2 {
					t.Error("the worker is still kept, though nobody waits for it")
				}
			})
		})
	}
}

// TestKeptWorkerIsLetGo: a decode worker is kept for nobody who is gone, though
// nobody else of that model waits.
func TestKeptWorkerIsLetGo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := admitting(t, 1, least{}, func(*Admission) {})
		fill(r, 50)
		ctx, leave := context.WithCancel(t.Context())
		_, came := apply(ctx, r, Need{Prompt: Prompt{Bytes: 100}})
		time.Sleep(overtaking + roomAgain)
		synctest.Wait()
		load := &worker(t, r, "decode-0").load
		if load.kept == 0 {
			t.Fatal("no worker is kept")
		}
		leave()
		<-came
		if load.kept != 0 {
			t.Error("the worker is kept for a request that has left")
		}
	})
}

// TestAnotherWorkerIsKept: who waits for a worker that may not be leased any more
// gets another one kept.
func TestAnotherWorkerIsKept(t *testing.T) {
	for name, chooser := range map[string]Chooser{"chosen one by one": least{}, "planned": &keeper{free: 1 << 30, byRoom: true}} {
		for how, leave := range map[string]func(*Registry, *Worker){
			"barred":  func(r *Registry, w *Worker) { r.Bar(w, Breaking, Forever(), "") },
			"drained": func(r *Registry, w *Worker) { _ = r.Drain(w.ID) },
		} {
			t.Run(name+", "+how, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					r := admitting(t, 2, chooser, func(*Admission) {})
					fill(r, 50)
					come(t, r, "", Need{Prompt: Prompt{Bytes: 100}})
					time.Sleep(overtaking + 2*roomAgain)
					synctest.Wait()
					first, second := worker(t, r, "decode-0"), worker(t, r, "decode-1")
					if second.load.kept != 0 {
						first, second = second, first
					}
					if first.load.kept == 0 {
						t.Fatal("no worker is kept")
					}
					leave(r, first)
					time.Sleep(2 * roomAgain)
					synctest.Wait()
					if first.load.kept != 0 || second.load.kept == 0 {
						t.Errorf("kept for %d and %d; want the other one kept", first.load.kept, second.load.kept)
					}
				})
			})
		}
	}
}

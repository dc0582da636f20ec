package workers

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"slices"
	"sync"
	"time"
)

// A Keeper keeps what a registry's Chooser knows in a file, so that it outlives
// the router. It is made and has loaded before the registry runs.
type Keeper struct {
	cfg      KeeperConfig
	registry *Registry
	tell     func(SnapshotEvent)

	mu      sync.Mutex            // guards the following
	pending map[string]remembered // of workers that have not told yet who they are
	met     uint64                // workers that have
	written [2]uint64             // what of Overall.Changes and met is in the file
	failing bool                  // the last one could not be written
	retired bool                  // another process writes it now
}

// A KeeperConfig is what a Keeper needs to know.
type KeeperConfig struct {
	File      string        // empty: there is none, and only LoadFrom and WriteTo are used
	MaxBlocks int           // read at most
	Interval  time.Duration // between two times that the file is written, if anything has changed
}

// A SnapshotEvent says what became of the file.
type SnapshotEvent struct {
	File            string
	Written         bool          // or else read
	Workers, Blocks int           // in it, as far as it was read or written
	Bytes           int64         // likewise; 0 if it was read
	Took            time.Duration // to read or write it
	Again           bool          // it was written, which failed the last time

	// Err is why it was not, or what of it was not. If it wraps fs.ErrNotExist
	// and the file was to be read, there is none yet.
	Err error
}

// forgetAfter is how old what is known of a worker may become that does not come
// back.
const forgetAfter = 24 * time.Hour

// fromProcess is in place of a file's name what came from another process.
const fromProcess = "the process before"

var errKind = errors.New("its blocks are hashed in another way than this release makes them")

// NewKeeper returns a Keeper. As long as the registry's Chooser has nothing to
// remember it does nothing. Tell is called with each event, by any goroutine.
func NewKeeper(r *Registry, cfg KeeperConfig, tell func(SnapshotEvent)) *Keeper {
	r.keeper = &Keeper{cfg: cfg, registry: r, tell: tell, pending: map[string]remembered{}}
	return r.keeper
}

// chooser returns who has something to remember; nil: the Chooser in force has
// not.
func (k *Keeper) chooser() Rememberer { return k.registry.chosen.Load().memory }

// Load reads the file. What it says of all workers is taken in at once; what it
// says of each, when the worker has told who it is.
func (k *Keeper) Load() {
	if k.cfg.File == "" || k.chooser() == nil {
		return
	}
	began := time.Now()
	removeLeftovers(k.cfg.File, began)
	found, faults := loadSnapshot(k.cfg.File, k.cfg.MaxBlocks)
	k.takeIn(found, faults, SnapshotEvent{File: k.cfg.File}, began)
}

// LoadFrom reads what WriteTo of another process writes, in place of the file.
func (k *Keeper) LoadFrom(from io.Reader) {
	if k.chooser() == nil {
		return
	}
	began := time.Now()
	found, faults := readSnapshot(from, k.cfg.MaxBlocks)
	k.takeIn(found, faults, SnapshotEvent{File: fromProcess}, began)
}

// WriteTo writes what is known now, for another process; nothing if nobody has
// anything to remember.
func (k *Keeper) WriteTo(to io.Writer) (n int64, err error) {
	chooser := k.chooser()
	if chooser == nil {
		return 0, nil
	}
	var event SnapshotEvent
	buffered := bufio.NewWriterSize(to, 1<<16)
	err = errors.Join(k.write(buffered, chooser, chooser.Overall(), &event), buffered.Flush())
	return event.Bytes, err
}

// Retire leaves the file to another process.
func (k *Keeper) Retire() {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.retired = true
}

// takeIn takes in what was found in the file, or came from elsewhere.
func (k *Keeper) takeIn(found *snapshot, faults []error, event SnapshotEvent, began time.Time) {
	chooser := k.chooser()
	if chooser == nil {
		return // another one was put in its place meanwhile
	}
	if found != nil && found.Kind != chooser.Overall().Kind {
		found, faults = nil, append(faults, errKind)
	}
	if found != nil {
		chooser.Adopt(Memory{Blocks: found.blocks, Learnt: found.Learnt})
		k.mu.Lock()
		for _, m := range found.workers {
			if began.Sub(m.At) < forgetAfter {
				k.pending[m.rememberedAs()] = m
				event.Workers++
				event.Blocks += len(m.Blocks)
			}
		}
		k.mu.Unlock()
	}
	event.Took, event.Err = time.Since(began), summed(faults)
	k.tell(event)
}

// summed returns one error of all faults, which tells the first of them.
func summed(faults []error) error {
	const told = 3
	if more := len(faults) - told; more > 0 {
		faults = append(slices.Clip(faults[:told]), fmt.Errorf("and %d further faults", more))
	}
	return errors.Join(faults...)
}

// save writes the file if anything has changed since.
func (k *Keeper) save() {
	began, chooser := time.Now(), k.chooser()
	if chooser == nil {
		return
	}
	overall := chooser.Overall()
	k.mu.Lock()
	state, written, idle := [2]uint64{overall.Changes, k.met}, k.written, k.retired || k.cfg.File == ""
	k.mu.Unlock()
	if idle || state == written {
		return
	}
	event := SnapshotEvent{File: k.cfg.File, Written: true}
	event.Err = replaceFile(k.cfg.File, func(to io.Writer) error { return k.write(to, chooser, overall, &event) })
	event.Took = time.Since(began)
	k.mu.Lock()
	failed := k.failing
	if k.failing = event.Err != nil; !k.failing {
		k.written = state
	}
	k.mu.Unlock()
	if event.Err != nil && failed {
		return // that is known
	}
	event.Again = failed
	k.tell(event)
}

// write writes a snapshot. The blocks of one worker at a time are in memory.
func (k *Keeper) write(to io.Writer, chooser Rememberer, overall Overall, event *SnapshotEvent) error {
	now := time.Now()
	out := newSnapshotWriter(to)
	defer func() { event.Bytes = out.bytes }()
	head := overallHead{At: now.UTC(), Kind: overall.Kind, Learnt: finite(overall.Learnt)}
	if err := errors.Join(out.header(), out.section(kindOverall, head, overall.Blocks)); err != nil {
		return err
	}
	var blocks []uint64
	there := map[string]bool{}
	for _, w := range k.registry.toRemember() {
		there[w.rememberedAs()] = true
		m, ok := k.awaited(w.Worker)
		if !ok {
			known := chooser.Remember(w.Seat(), w.Worker, blocks[:0])
			m = remembered{workerHead{identityOf(w.Spec, w.facts, w.report, now), finite(known.Learnt)}, known.Blocks}
			blocks = known.Blocks
		}
		if err := out.worker(m, event); err != nil {
			return err
		}
	}
	for _, m := range k.absent(there, now) {
		if err := out.worker(m, event); err != nil {
			return err
		}
	}
	return out.section(kindEnd, struct{}{}, nil)
}

// worker writes what is remembered of one, unless there is nothing, the file
// has all the workers that it may have, or its name is longer than any reader
// takes.
func (s *snapshotWriter) worker(m remembered, event *SnapshotEvent) error {
	if len(m.Blocks) == 0 || event.Workers == maxRemembered {
		return nil
	}
	err := s.section(kindWorker, m.workerHead, m.Blocks)
	if errors.Is(err, errLongHead) {
		return nil
	}
	event.Workers++
	event.Blocks += len(m.Blocks)
	return err
}

// awaited returns what is remembered of a worker that has not told yet who it
// is.
func (k *Keeper) awaited(w *Worker) (remembered, bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if len(k.pending) == 0 {
		return remembered{}, false // from the first minute on
	}
	m, ok := k.pending[w.rememberedAs()]
	return m, ok
}

// recall lets the Chooser know again what it knew of w, if the engine is the
// same as it was. Last is what it has told; with At zero: nothing, and it will
// not.
func (k *Keeper) recall(w *Worker, facts *Facts, last Report) (Event, bool) {
	m, ok := k.awaited(w)
	chooser := k.chooser()
	if !ok || chooser == nil {
		return Event{}, false
	}
	event := Event{Worker: w, Kind: Recalled}
	now := identityOf(w.Spec, facts, last, time.Now())
	if why := m.changed(now); why != "" {
		event.Kind, event.Reason = Unrecalled, why
	} else {
		blocks := chooser.Recall(w.Seat(), w, m.memory())
		event.Reason = fmt.Sprintf("%d blocks, as of %v ago", blocks, now.At.Sub(m.At).Round(time.Second))
	}
	k.mu.Lock() // not earlier: what is being taken in may be written meanwhile
	delete(k.pending, w.rememberedAs())
	k.met++
	k.mu.Unlock()
	return event, true
}

// absent returns what is remembered of workers other than those which are
// there: they may come yet, started later or added by an operator.
func (k *Keeper) absent(there map[string]bool, now time.Time) []remembered {
	k.mu.Lock()
	defer k.mu.Unlock()
	var all []remembered
	for key, m := range k.pending {
		if now.Sub(m.At) >= forgetAfter {
			delete(k.pending, key)
		} else if !there[key] {
			all = append(all, m)
		}
	}
	return all
}

package workers

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/maphash"
	"time"

	"github.com/go-zeromq/zmq4"
)

const (
	// kvFirstWait and kvMaxWait are how long a follower waits before it connects
	// again: twice as long each time.
	kvFirstWait = 250 * time.Millisecond
	kvMaxWait   = 10 * time.Second

	// kvAbsence is how long an engine may be out of reach until what it was
	// known to hold is believed no longer.
	kvAbsence = 30 * time.Second
)

// A kvFollower follows the KV events of one rank of one worker. Engines number
// their batches. It notices when some are missing, asks for them if the engine
// can be asked, and tells the sink when they cannot be had or when the numbers
// begin anew, as they do after a restart.
type kvFollower struct {
	at   KVEndpoint
	seat int
	sink KVSink
	note *kvNotes
	say  func(kind EventKind, reason string)

	reader  KVReader
	seed    maphash.Seed
	begun   bool   // the sink counts on us
	next    uint64 // number of the batch that is due
	known   bool   // next is known
	last    uint64 // hash of the batch before it
	again   uint64 // batches before this one were replayed, and may come again
	unclear bool   // it has been said that batches cannot be read
}

// run follows until ctx ends. Then the sink knows that it does so no longer.
func (f *kvFollower) run(ctx context.Context) {
	defer f.lose()
	wait, away := kvFirstWait, time.Now()
	for ctx.Err() == nil {
		connected, err := f.session(ctx)
		if connected {
			wait, away = kvFirstWait, time.Now()
		}
		if ctx.Err() != nil {
			return
		}
		if f.begun && time.Since(away) >= kvAbsence {
			f.lose()
			f.say(KVEventsLost, fmt.Sprintf("rank %d: %v", f.at.Rank, err))
		}
		timer := time.NewTimer(spread(wait))
		select {
		case <-ctx.Done():
		case <-timer.C:
		}
		timer.Stop()
		wait = min(2*wait, kvMaxWait)
	}
}

// session follows one connection to its end.
func (f *kvFollower) session(ctx context.Context) (connected bool, err error) {
	c, err := dialKV(ctx, f.at.Events, zmq4.Sub)
	if err != nil {
		return false, err
	}
	defer c.close()
	if err := c.send(append([]byte{1}, f.at.Topic...)); err != nil {
		return false, err
	}
	if !f.begun {
		f.begin()
		f.say(KVEventsFollowed, fmt.Sprintf("rank %d at %s", f.at.Rank, f.at.Events))
	}
	f.again = 0
	f.note.followed.Add(1)
	defer f.note.followed.Add(-1)
	if f.at.Replay != "" {
		f.catchUp(ctx)
	}
	for {
		frames, err := c.receive(time.Time{})
		if err != nil {
			return true, err
		}
		if len(frames) != 3 || len(frames[1]) != 8 {
			f.misread(fmt.Errorf("a message of %d frames, not topic, number and batch", len(frames)))
			continue
		}
		if bytes.HasPrefix(frames[0], []byte(f.at.Topic)) {
			f.batch(ctx, binary.BigEndian.Uint64(frames[1]), frames[2])
		}
	}
}

// begin tells the sink that it is told of all from here on.
func (f *kvFollower) begin() {
	f.begun, f.known = true, false
	f.sink.KVFollowed(f.seat, f.at.Rank)
}

// lose tells the sink that it is told of nothing more.
func (f *kvFollower) lose() {
	if f.begun {
		f.begun, f.known = false, false
		f.sink.KVLost(f.seat, f.at.Rank)
	}
}

// anew begins again, because what the engine holds is not known any more.
func (f *kvFollower) anew(why string) {
	f.note.resets.Add(1)
	f.lose()
	f.say(KVEventsLost, fmt.Sprintf("rank %d: %s", f.at.Rank, why))
	f.begin()
}

// batch takes in a batch that has just been published.
func (f *kvFollower) batch(ctx context.Context, seq uint64, payload []byte) {
	switch {
	case !f.known || seq == f.next:
	case seq < f.again: // it was replayed already
		return
	case seq < f.next:
		f.anew(fmt.Sprintf("batch %d came where %d was due: the engine has started anew", seq, f.next))
	default:
		f.note.gaps.Add(1)
		if due := f.next; !f.fill(ctx) || f.next < seq {
			f.anew(fmt.Sprintf("batches %d to %d are missing", due, seq-1))
		} else if seq < f.next {
			return
		}
	}
	f.take(seq, payload)
}

// fill has what is missing replayed. It reports whether it could be asked for.
func (f *kvFollower) fill(ctx context.Context) bool {
	return f.at.Replay != "" && f.replay(ctx, f.next, func(seq uint64) bool { return seq == f.next }) == nil
}

// catchUp has replayed what was published before we came, or while we were
// away. If the batch that was read last is not what it was, or cannot be had,
// the engine is another one, or we were away for too long.
func (f *kvFollower) catchUp(ctx context.Context) {
	if f.known && f.next > 0 {
		same, asked := f.isSame(ctx)
		if !asked {
			return // the numbers will tell
		}
		if !same {
			f.anew("the engine does not know what it had said last: it has started anew, or we were away for too long")
		} else if !f.fill(ctx) {
			return
		}
	}
	if !f.known {
		_ = f.replay(ctx, 0, func(uint64) bool { return true }) // it is no worse than not to ask
	}
}

// isSame reports whether the batch read last is the one that the engine has
// under this number, if it could be asked.
func (f *kvFollower) isSame(ctx context.Context) (same, asked bool) {
	err := replayKV(ctx, f.at.Replay, f.next-1, func(seq uint64, payload []byte) bool {
		same = seq == f.next-1 && maphash.Bytes(f.seed, payload) == f.last
		return false
	})
	return same, err == nil
}

var errNotDue = errors.New("the engine no longer has what is due")

// replay takes in what the engine has from one number on, if the first of it
// will do.
func (f *kvFollower) replay(ctx context.Context, from uint64, first func(seq uint64) bool) error {
	begun, fits := false, true
	err := replayKV(ctx, f.at.Replay, from, func(seq uint64, payload []byte) bool {
		if !begun {
			begun, fits = true, first(seq)
		}
		if fits {
			f.note.replayed.Add(1)
			f.take(seq, payload)
			f.again = f.next
		}
		return fits
	})
	if !fits {
		return errNotDue
	}
	return err
}

// take tells the sink of a batch.
func (f *kvFollower) take(seq uint64, payload []byte) {
	f.next, f.known, f.last = seq+1, true, maphash.Bytes(f.seed, payload)
	now := time.Now()
	n, err := f.reader.Read(payload, func(e *KVEvent) { f.sink.KVTold(f.seat, f.at.Rank, now, e) })
	f.note.count(n)
	if err != nil { // what it should have said is missing
		f.misread(fmt.Errorf("batch %d: %w", seq, err))
		f.lose()
		f.begin()
		f.next, f.known = seq+1, true
	} else if n.Malformed > 0 {
		f.misread(fmt.Errorf("batch %d: %d malformed events", seq, n.Malformed))
	}
}

// misread counts a message that cannot be read, and says so once.
func (f *kvFollower) misread(err error) {
	f.note.malformed.Add(1)
	if !f.unclear {
		f.unclear = true
		f.say(KVEventsUnread, fmt.Sprintf("rank %d: %v", f.at.Rank, err))
	}
}

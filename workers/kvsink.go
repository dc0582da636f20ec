package workers

import "time"

// A KVSink is a Chooser that wants to know what engines say that they hold: it
// is told by KV events what each worker stores and removes. Its methods may be
// called by any goroutine, those of one worker's rank by one at a time. They
// must not block on anything but their own locks.
type KVSink interface {
	// KVFollowed says that all events of a worker's data-parallel rank are told
	// from here on. What the rank holds already is not known, unless it is
	// told: an engine that can replay what it has said begins with that.
	KVFollowed(seat, rank int)

	// KVTold tells of one event. It is valid until the call returns.
	KVTold(seat, rank int, at time.Time, e *KVEvent)

	// KVLost says that events have been missed, or are not told any more: what
	// the rank holds is not known from here on.
	KVLost(seat, rank int)
}

// A KVEventKind says what an engine did.
type KVEventKind uint8

// The kinds.
const (
	KVStored  KVEventKind = iota // it holds more KV blocks
	KVRemoved                    // it holds some no longer
	KVCleared                    // it holds none
)

// A KVEvent is one thing that an engine said of its KV blocks on the GPU.
type KVEvent struct {
	Kind KVEventKind

	// Hashes are the engine's names for the blocks, each of which stands for
	// all tokens up to the block's end. Those stored follow one another. How an
	// engine makes them is its own affair: they are only compared.
	Hashes []uint64

	// Parent is the block before the first one stored. Root: there is none, the
	// first begins a prompt.
	Parent uint64
	Root   bool

	// Size is how many tokens a stored block has, and Tokens are those of all
	// of them. Empty: the engine does not tell.
	Size   int
	Tokens []uint32

	// Extra tells apart blocks of the same tokens that are not the same, such
	// as those of two LoRA adapters: one number for each block. Empty: none.
	Extra []uint64
}

// maxKVRanks bounds the data-parallel ranks of one worker that are followed.
const maxKVRanks = 64

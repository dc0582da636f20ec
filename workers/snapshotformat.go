package workers

import (
	"hash/crc32"
	"time"
)

// A snapshot file has a header and sections:
//
//	header   8 bytes "pdrindex", 4 bytes version
//	section  4 bytes kind, 8 bytes length, 4 bytes sum of these 12;
//	         length bytes of content, 4 bytes sum of these
//	content  4 bytes length of the head, the head (JSON), then blocks of 8 bytes
//
// Numbers are little-endian, sums CRC-32C. The first section is "all ", with
// what is known of all workers; then comes a "wrkr" for each, with its identity
// and what is known of it; the last is "end ". A reader leaves alone sections of
// other kinds, and names in a head that it does not know, so that a release may
// add to both. What an old reader would take wrong needs a new version.
//
// A section whose sum is wrong is left out; behind one whose length is not to
// be trusted nothing is read. Nothing is taken from a file of another version.
const (
	snapshotMagic   = "pdrindex"
	snapshotVersion = 1

	kindOverall = "all "
	kindWorker  = "wrkr"
	kindEnd     = "end "

	// maxHead bounds the head of a section, in bytes; some 500 are usual.
	maxHead = 64 << 10

	// maxRemembered bounds the workers in a file.
	maxRemembered = 4096

	// blocksAtOnce is how many blocks are written or read in one piece.
	blocksAtOnce = 4096
)

// A snapshot is what was known at one moment.
type snapshot struct {
	overallHead
	blocks  []uint64 // of all
	workers []remembered
}

// An overallHead is what the head of "all " has.
type overallHead struct {
	At     time.Time            `json:"at"`
	Kind   uint64               `json:"kind"` // of blocks
	Learnt map[string][]float64 `json:"learnt,omitempty"`
}

// A workerHead is what the head of "wrkr" has.
type workerHead struct {
	identity
	Learnt map[string][]float64 `json:"learnt,omitempty"`
}

// A remembered is a worker in a snapshot.
type remembered struct {
	workerHead
	Blocks []uint64
}

// memory returns what is remembered.
func (m *remembered) memory() Memory { return Memory{Blocks: m.Blocks, Learnt: m.Learnt} }

// castagnoli returns the table of the sums.
func castagnoli() *crc32.Table { return crc32.MakeTable(crc32.Castagnoli) }

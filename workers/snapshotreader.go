package workers

import (
	"bufio"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
)

// A snapshotReader reads a snapshot.
type snapshotReader struct {
	r     *bufio.Reader
	sums  *crc32.Table
	left  int // blocks that may still be taken
	found snapshot
	began bool // "all " has been read
}

// errForeign and its like say why nothing is taken from a file.
var (
	errForeign = errors.New("it is no index snapshot")
	errEarly   = errors.New("it ends early")
	errNoBegin = errors.New("what is known of all workers is missing or damaged")
)

// readSnapshot reads a snapshot of at most so many blocks; of a worker for which
// there is no room for all, the newest are taken. The faults say what of it is
// left out, and why. The snapshot is nil if that is all.
func readSnapshot(from io.Reader, most int) (*snapshot, []error) {
	s := &snapshotReader{r: bufio.NewReaderSize(from, 8*blocksAtOnce), sums: castagnoli(), left: most}
	var faults []error
	if err := s.header(); err != nil {
		return nil, []error{err}
	}
	for {
		kind, err := s.section()
		rest := (*brokenError)(nil)
		switch {
		case errors.As(err, &rest):
			faults = append(faults, rest.err)
		case err != nil:
			faults = append(faults, fmt.Errorf("section %q: %w", kind, err))
		}
		switch {
		case !s.began: // what kind the blocks are is not known
			return nil, append(faults, errNoBegin)
		case kind == kindEnd || rest != nil:
			return &s.found, faults
		case len(s.found.workers) > maxRemembered:
			return &s.found, append(faults, fmt.Errorf("it has more than %d workers", maxRemembered))
		}
	}
}

func (s *snapshotReader) header() error {
	var b [len(snapshotMagic) + 4]byte
	if _, err := io.ReadFull(s.r, b[:]); err != nil || string(b[:len(snapshotMagic)]) != snapshotMagic {
		return errForeign
	}
	if v := binary.LittleEndian.Uint32(b[len(snapshotMagic):]); v != snapshotVersion {
		return fmt.Errorf("it is of version %d, and this release reads %d", v, snapshotVersion)
	}
	return nil
}

// A brokenError is a fault behind which nothing can be read.
type brokenError struct{ err error }

// Error implements error.
func (e *brokenError) Error() string { return e.err.Error() }

// section reads a section, and takes what it has.
func (s *snapshotReader) section() (kind string, err error) {
	var top [16]byte
	if _, err := io.ReadFull(s.r, top[:]); err != nil {
		return "", &brokenError{errEarly}
	}
	if binary.LittleEndian.Uint32(top[12:]) != crc32.Checksum(top[:12], s.sums) {
		return "", &brokenError{errors.New("the sum of a section's beginning is wrong")}
	}
	kind = string(top[:4])
	return kind, s.content(kind, binary.LittleEndian.Uint64(top[4:]))
}

// content reads the content of a section and the sum behind it.
func (s *snapshotReader) content(kind string, length uint64) error {
	var word [4]byte
	if _, err := io.ReadFull(s.r, word[:]); err != nil {
		return &brokenError{errEarly}
	}
	n := uint64(binary.LittleEndian.Uint32(word[:]))
	if n > maxHead || 4+n > length || (length-4-n)%8 != 0 {
		return &brokenError{fmt.Errorf("section %q: a head of %d bytes in %d", kind, n, length)}
	}
	head := make([]byte, n)
	if _, err := io.ReadFull(s.r, head); err != nil {
		return &brokenError{errEarly}
	}
	sum := crc32.Update(crc32.Update(0, s.sums, word[:]), s.sums, head)
	blocks, sum, err := s.blocks((length-4-n)/8, sum)
	if err != nil {
		return &brokenError{errEarly}
	}
	if _, err := io.ReadFull(s.r, word[:]); err != nil {
		return &brokenError{errEarly}
	}
	if binary.LittleEndian.Uint32(word[:]) != sum {
		return errors.New("its sum is wrong")
	}
	return s.take(kind, head, blocks)
}

// blocks reads n blocks, and returns those of them for which there is room. The
// memory that it takes is that of what has been read, whatever n says.
func (s *snapshotReader) blocks(n uint64, sum uint32) ([]uint64, uint32, error) {
	var blocks []uint64
	skip := n - min(n, uint64(s.left))
	piece := make([]byte, 8*min(n, blocksAtOnce))
	for n > 0 {
		piece = piece[:8*min(n, blocksAtOnce)]
		if _, err := io.ReadFull(s.r, piece); err != nil {
			return nil, 0, err
		}
		sum = crc32.Update(sum, s.sums, piece)
		n -= uint64(len(piece) / 8)
		for i := 0; i < len(piece); i += 8 {
			if skip > 0 {
				skip--
				continue
			}
			blocks = append(blocks, binary.LittleEndian.Uint64(piece[i:]))
		}
	}
	return blocks, sum, nil
}

// take takes what a section has whose sum is right.
func (s *snapshotReader) take(kind string, head []byte, blocks []uint64) error {
	switch kind {
	case kindOverall:
		if err := json.Unmarshal(head, &s.found.overallHead); err != nil {
			return err
		}
		s.found.blocks, s.began = blocks, true
	case kindWorker:
		m := remembered{Blocks: blocks}
		if err := json.Unmarshal(head, &m.workerHead); err != nil {
			return err
		}
		s.left -= len(blocks)
		s.found.workers = append(s.found.workers, m)
	}
	return nil
}

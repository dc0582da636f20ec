package workers

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"hash/crc32"
	"io"
	"math"
)

var errLongHead = errors.New("a section's head is too long")

// A snapshotWriter writes a snapshot.
type snapshotWriter struct {
	w     io.Writer
	sums  *crc32.Table
	piece []byte
	bytes int64
}

func newSnapshotWriter(w io.Writer) *snapshotWriter {
	return &snapshotWriter{w: w, sums: castagnoli(), piece: make([]byte, 0, 8*blocksAtOnce)}
}

func (s *snapshotWriter) write(p []byte) error {
	s.bytes += int64(len(p))
	_, err := s.w.Write(p)
	return err
}

func (s *snapshotWriter) header() error {
	return s.write(binary.LittleEndian.AppendUint32([]byte(snapshotMagic), snapshotVersion))
}

// section writes a section.
func (s *snapshotWriter) section(kind string, head any, blocks []uint64) error {
	text, err := json.Marshal(head)
	if err != nil {
		return err
	}
	if len(text) > maxHead {
		return errLongHead // nothing has been written of it
	}
	top := binary.LittleEndian.AppendUint64([]byte(kind), uint64(4+len(text)+8*len(blocks)))
	top = binary.LittleEndian.AppendUint32(top, crc32.Checksum(top, s.sums))
	if err := s.write(top); err != nil {
		return err
	}
	s.piece = append(binary.LittleEndian.AppendUint32(s.piece[:0], uint32(len(text))), text...)
	sum := crc32.Update(0, s.sums, s.piece)
	err = s.write(s.piece)
	for len(blocks) > 0 && err == nil {
		n := min(len(blocks), blocksAtOnce)
		s.piece = s.piece[:0]
		for _, b := range blocks[:n] {
			s.piece = binary.LittleEndian.AppendUint64(s.piece, b)
		}
		sum = crc32.Update(sum, s.sums, s.piece)
		err, blocks = s.write(s.piece), blocks[n:]
	}
	if err != nil {
		return err
	}
	return s.write(binary.LittleEndian.AppendUint32(nil, sum))
}

// finite returns what of learnt can be written down.
func finite(learnt map[string][]float64) map[string][]float64 {
	kept := map[string][]float64{}
	for name, numbers := range learnt {
		whole := true
		for _, v := range numbers {
			whole = whole && !math.IsNaN(v) && !math.IsInf(v, 0)
		}
		if whole {
			kept[name] = numbers
		}
	}
	return kept
}

package workers

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"hash/crc32"
	"io"
	"reflect"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"
)

// written returns the file of two workers.
func written(t testing.TB) []byte {
	t.Helper()
	var b bytes.Buffer
	w := newSnapshotWriter(&b)
	at := time.Date(2026, 3, 4, 5, 6, 7, 0, time.UTC)
	overall := overallHead{At: at, Kind: 1<<64 - 1, Learnt: map[string][]float64{"speed": {1, 0.1, 3e9}}}
	worker := func(url string) workerHead {
		id := identity{Role: "prefill", URL: url, Dialect: "sglang", Model: "m", At: at, Totals: map[string]float64{"prompt_tokens": 7}}
		return workerHead{id, map[string][]float64{"kept": {0.5}}}
	}
	err := errors.Join(
		w.header(),
		w.section(kindOverall, overall, []uint64{1, 2}),
		w.section(kindWorker, worker("http://a:1"), []uint64{3, 4, 1<<64 - 1}),
		w.section(kindWorker, worker("http://b:1"), []uint64{5}),
		w.section(kindEnd, struct{}{}, nil),
	)
	if err != nil {
		t.Fatal(err)
	}
	if w.bytes != int64(b.Len()) {
		t.Errorf("%d bytes are told, %d were written", w.bytes, b.Len())
	}
	return b.Bytes()
}

// faultless returns the snapshot in a file that has no fault.
func faultless(t testing.TB, file []byte) *snapshot {
	t.Helper()
	s, faults := readSnapshot(bytes.NewReader(file), 1000)
	if s == nil || len(faults) > 0 {
		t.Fatalf("readSnapshot = %v, %v", s, faults)
	}
	return s
}

func TestSnapshotRoundTrip(t *testing.T) {
	s := faultless(t, written(t))
	if s.Kind != 1<<64-1 || !slices.Equal(s.blocks, []uint64{1, 2}) || !reflect.DeepEqual(s.Learnt, map[string][]float64{"speed": {1, 0.1, 3e9}}) {
		t.Errorf("of all: %+v, %v", s.overallHead, s.blocks)
	}
	if len(s.workers) != 2 {
		t.Fatalf("%d workers, want 2", len(s.workers))
	}
	a := s.workers[0]
	if a.URL != "http://a:1" || a.Totals["prompt_tokens"] != 7 || a.Learnt["kept"][0] != 0.5 || !slices.Equal(a.Blocks, []uint64{3, 4, 1<<64 - 1}) {
		t.Errorf("a worker: %+v", a)
	}
}

// wantPartOf fails if anything was read that was not written, or nothing is said
// of what is missing.
func wantPartOf(t *testing.T, what string, file []byte, s *snapshot) {
	t.Helper()
	got, faults := readSnapshot(bytes.NewReader(file), 1000)
	if len(faults) == 0 {
		t.Errorf("%s: no fault is found", what)
	}
	if got == nil {
		return
	}
	if !reflect.DeepEqual(got.overallHead, s.overallHead) || !slices.Equal(got.blocks, s.blocks) {
		t.Errorf("%s: of all %+v is read", what, got.overallHead)
	}
	for _, w := range got.workers {
		if !slices.ContainsFunc(s.workers, func(was remembered) bool { return reflect.DeepEqual(was, w) }) {
			t.Errorf("%s: a worker %+v is read", what, w)
		}
	}
}

// TestSnapshotWithAnyFault: whatever bit is flipped and wherever the file ends,
// that is found, and what is taken all the same is as it was written.
func TestSnapshotWithAnyFault(t *testing.T) {
	file := written(t)
	s := faultless(t, file)
	kept := 0
	for i := range file {
		for bit := range 8 {
			bad := slices.Clone(file)
			bad[i] ^= 1 << bit
			wantPartOf(t, "a flipped bit", bad, s)
			if got, _ := readSnapshot(bytes.NewReader(bad), 1000); got != nil && len(got.workers) > 0 {
				kept++
			}
		}
		wantPartOf(t, "an early end", file[:i], s)
		wantPartOf(t, "zeros from a place on", append(slices.Clone(file[:i]), make([]byte, len(file)-i)...), s)
	}
	if kept < len(file) {
		t.Errorf("a flipped bit costs more than the part that it is in: %d of %d files leave something", kept, 8*len(file))
	}
}

// sealed returns a section with right sums, whatever is in it.
func sealed(kind string, length uint64, content []byte) []byte {
	sums := castagnoli()
	b := binary.LittleEndian.AppendUint64([]byte(kind), length)
	b = binary.LittleEndian.AppendUint32(b, crc32.Checksum(b, sums))
	return binary.LittleEndian.AppendUint32(append(b, content...), crc32.Checksum(content, sums))
}

// content returns a section's content.
func content(head string, blocks int) []byte {
	b := append(binary.LittleEndian.AppendUint32(nil, uint32(len(head))), head...)
	return append(b, make([]byte, 8*blocks)...)
}

// TestSnapshotsOfOthers: files that are well formed, but not what this release
// writes.
func TestSnapshotsOfOthers(t *testing.T) {
	header := func(version uint32) []byte {
		return binary.LittleEndian.AppendUint32([]byte(snapshotMagic), version)
	}
	file := func(parts ...[]byte) []byte {
		return bytes.Join(append([][]byte{header(snapshotVersion)}, parts...), nil)
	}
	section := func(kind, head string, blocks int) []byte {
		c := content(head, blocks)
		return sealed(kind, uint64(len(c)), c)
	}
	all, end := section(kindOverall, `{"kind":1}`, 0), section(kindEnd, `{}`, 0)
	worker := section(kindWorker, `{"role":"prefill","url":"http://a:1"}`, 2)
	var crowd [][]byte
	for range maxRemembered + 2 {
		crowd = append(crowd, section(kindWorker, `{"url":"http://a:1"}`, 0))
	}
	huge := content("{}", 0)
	for _, tt := range []struct {
		name    string
		file    []byte
		workers int    // that are read; below 0: nothing is
		fault   string // empty: there is none
	}{
		{"an empty file", nil, -1, "no index snapshot"},
		{"a file of something else", []byte(strings.Repeat("workers:\n", 9)), -1, "no index snapshot"},
		{"a later version", slices.Concat(header(2), all, end), -1, "version 2, and this release reads 1"},
		{"only a header", header(1), -1, "ends early"},
		{"all that there must be", file(all, end), 0, ""},
		{"a worker", file(all, worker, end), 1, ""},
		{"a section of another kind", file(all, section("novl", `{"x":[]}`, 3), worker, end), 1, ""},
		{"names that are not known", file(section(kindOverall, `{"kind":1,"new":{}}`, 0), section(kindWorker, `{"new":1}`, 0), end), 1, ""},
		{"something behind the end", append(file(all, end), 1, 2, 3), 0, ""},
		{"no end", file(all, worker), 1, "ends early"},
		{"a worker first", file(worker, all, end), -1, "all workers is missing"},
		{"a head that is no JSON", file(all, section(kindWorker, `{"url`, 0), worker, end), 1, `section "wrkr"`},
		{"a head of other types", file(all, section(kindWorker, `{"url":7}`, 0), worker, end), 1, `section "wrkr"`},
		{"a head that is too long", file(all, section(kindWorker, `{"url":"`+strings.Repeat("a", maxHead)+`"}`, 0), end), 0, "a head of"},
		{"a head longer than its section", file(all, sealed(kindWorker, 6, []byte{200, 0, 0, 0, 1, 2})), 0, "a head of 200"},
		{"a section shorter than its head's length", file(all, sealed(kindWorker, 0, nil)), 0, "a head of"},
		{"blocks that are not whole", file(all, sealed(kindWorker, 9, append(content("{}", 0), 1, 2, 3))), 0, "a head of"},
		{"a section as long as can be said", file(all, sealed(kindWorker, 1<<64-2, huge)), 0, "ends early"},
		{"more workers than can be", file(append([][]byte{all}, crowd...)...), maxRemembered + 1, "more than"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s, faults := readSnapshot(bytes.NewReader(tt.file), 1000)
			got := -1
			if s != nil {
				got = len(s.workers)
			}
			if got != tt.workers {
				t.Errorf("%d workers, want %d", got, tt.workers)
			}
			if err := errors.Join(faults...); (err != nil) != (tt.fault != "") || err != nil && !strings.Contains(err.Error(), tt.fault) {
				t.Errorf("faults = %v, want %q", err, tt.fault)
			}
		})
	}
}

// TestSnapshotIsBounded: of more blocks than there may be the newest are taken,
// and a length that is a lie takes no memory.
func TestSnapshotIsBounded(t *testing.T) {
	s, faults := readSnapshot(bytes.NewReader(written(t)), 3)
	if len(faults) > 0 || len(s.workers) != 2 || !slices.Equal(s.workers[0].Blocks, []uint64{3, 4, 1<<64 - 1}) || len(s.workers[1].Blocks) != 0 {
		t.Errorf("with room for 3: %+v, %v", s, faults)
	}
	s, _ = readSnapshot(bytes.NewReader(written(t)), 2)
	if !slices.Equal(s.workers[0].Blocks, []uint64{4, 1<<64 - 1}) {
		t.Errorf("with room for 2: %+v", s.workers[0].Blocks)
	}
	lie := append(slices.Clone(written(t)[:12]), sealed(kindOverall, 6, content("{}", 0))...)
	lie = append(lie, sealed(kindWorker, 1<<40+6, content("{}", 100))...)
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	_, faults = readSnapshot(bytes.NewReader(lie), 1<<40)
	runtime.ReadMemStats(&after)
	if took := after.TotalAlloc - before.TotalAlloc; took > 1<<20 || len(faults) == 0 {
		t.Errorf("%d bytes of memory for a file of %d, faults %v", took, len(lie), faults)
	}
}

func TestHeadsAreBounded(t *testing.T) {
	w := newSnapshotWriter(io.Discard)
	if err := w.section(kindWorker, strings.Repeat("a", maxHead), nil); !errors.Is(err, errLongHead) {
		t.Errorf("error = %v of a head that no reader takes", err)
	}
	long := remembered{Blocks: []uint64{1}}
	long.Model = strings.Repeat("a", maxHead)
	var event SnapshotEvent
	if err := w.worker(long, &event); err != nil || event.Workers != 0 || w.bytes != 0 {
		t.Errorf("%v, %+v: a worker whose model has a long name is not left out", err, event)
	}
	for _, fails := range []int64{0, 12, 40} {
		w := newSnapshotWriter(&full{fails})
		if err := errors.Join(w.header(), w.section(kindOverall, overallHead{}, make([]uint64, 10_000))); !errors.Is(err, errFull) {
			t.Errorf("error = %v from a disk that is full after %d bytes", err, fails)
		}
	}
}

var errFull = errors.New("no space left")

// full is a disk with so many bytes of room.
type full struct{ room int64 }

func (f *full) Write(p []byte) (int, error) {
	if f.room -= int64(len(p)); f.room < 0 {
		return 0, errFull
	}
	return len(p), nil
}

func FuzzReadSnapshot(f *testing.F) {
	file := written(f)
	f.Add(file, uint16(100))
	f.Add(file[:len(file)/2], uint16(2))
	f.Add(append(slices.Clone(file[:12]), sealed(kindOverall, 6, content("{}", 0))...), uint16(9))
	f.Add(append(slices.Clone(file[:12]), sealed(kindOverall, 1<<63, content(`{"kind":1}`, 3))...), uint16(9))
	f.Fuzz(func(t *testing.T, file []byte, most uint16) {
		s, faults := readSnapshot(bytes.NewReader(file), int(most))
		if s == nil {
			if len(faults) == 0 {
				t.Error("nothing was read, and nobody says why")
			}
			return
		}
		blocks := 0
		for _, w := range s.workers {
			blocks += len(w.Blocks)
		}
		if blocks > int(most) || len(s.blocks) > int(most) {
			t.Errorf("%d blocks were read, and %d for all, want at most %d", blocks, len(s.blocks), most)
		}
		if _, err := json.Marshal(s.overallHead); err != nil {
			t.Errorf("what was read cannot be written: %v", err)
		}
	})
}

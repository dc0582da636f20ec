package workers

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"math"
	"strconv"
)

const (
	// maxLineBytes bounds a line of a metrics page. The longest seen is 1.2 KB:
	// the labels of vllm:cache_config_info.
	maxLineBytes = 16 << 10

	// maxRanks bounds the ranks of one engine that are told apart.
	maxRanks = 512
)

// scan reads a page of Prometheus's text format and returns the number that
// stands at each source, NaN where there is none. Lines that no source asks
// for are passed over by their name alone: most of a page is buckets of
// histograms, and nothing is allocated for a line.
func scan(page io.Reader, sources []source) ([]float64, error) {
	t := newTally(sources)
	in := bufio.NewReaderSize(page, maxLineBytes)
	for n, size := 1, 0; ; n++ {
		line, err := in.ReadSlice('\n')
		size += len(line)
		switch {
		case errors.Is(err, bufio.ErrBufferFull):
			return nil, fmt.Errorf("line %d is longer than %d bytes", n, maxLineBytes)
		case size > maxPageBytes:
			return nil, fmt.Errorf("longer than %d bytes", maxPageBytes)
		case err != nil && err != io.EOF:
			return nil, err
		}
		if fault := t.line(line); fault != nil {
			return nil, fmt.Errorf("line %d: %w", n, fault)
		}
		if err != nil {
			return t.values(), nil
		}
	}
}

// A tally adds up the samples of a page by source.
type tally struct {
	sources []source
	asking  map[string][]int // sources, by the name that they ask for
	cells   [][]cell         // by source
	passed  []byte           // the name of the last line that no source asks for
}

// A cell is what one process of an engine tells at a source.
type cell struct {
	rank uint64 // which data-parallel rank it belongs to
	copy uint64 // which of the processes that compute the rank's requests together
	v    float64
}

func newTally(sources []source) *tally {
	t := &tally{sources: sources, asking: map[string][]int{}, cells: make([][]cell, len(sources))}
	for i, s := range sources {
		for _, name := range s.names {
			t.asking[name] = append(t.asking[name], i)
		}
	}
	return t
}

// line takes in one line.
func (t *tally) line(line []byte) error {
	line = bytes.TrimLeft(line, " \t")
	if len(line) > len(t.passed) && line[len(t.passed)] == '{' && bytes.HasPrefix(line, t.passed) {
		return nil // another sample of a family that nobody wants
	}
	end := nameLength(line)
	asking := t.asking[string(line[:end])]
	if len(asking) == 0 {
		t.passed = append(t.passed[:0], line[:end]...)
		return nil // a comment, an empty line, or a sample that nobody wants
	}
	labels, rest, ok := cutLabels(line[end:])
	if !ok {
		return fmt.Errorf("no sample: %q", clip(line))
	}
	if len(label(labels, "priority")) > 0 {
		return nil // a part of the sample that has none
	}
	rest = bytes.TrimSpace(rest) // the number, and maybe a time or an exemplar
	v, err := strconv.ParseFloat(string(rest[:nameLength(rest)]), 64)
	if err != nil {
		return fmt.Errorf("no number: %q", clip(line))
	}
	rank := hash(hash(seed, label(labels, "dp_rank")), label(labels, "engine"))
	twin := hash(hash(hash(seed, label(labels, "tp_rank")), label(labels, "pp_rank")), label(labels, "moe_ep_rank"))
	for _, i := range asking {
		if err := t.add(i, labels, cell{rank, twin, v}); err != nil {
			return err
		}
	}
	return nil
}

// add adds a sample to a source, unless its labels say that it is not meant.
func (t *tally) add(i int, labels []byte, c cell) error {
	s := &t.sources[i]
	if !s.wants(labels) {
		return nil
	}
	if s.number != "" {
		v, err := strconv.ParseFloat(string(label(labels, s.number)), 64)
		if err != nil {
			return nil // None, or an older engine that has no such label
		}
		c.v = v
	}
	if math.IsNaN(c.v) || math.IsInf(c.v, 0) || c.v < 0 {
		return nil // how engines say that they do not know
	}
	cells := t.cells[i]
	for j := range cells {
		if cells[j].rank == c.rank && cells[j].copy == c.copy {
			cells[j].v += c.v
			return nil
		}
	}
	if len(cells) == maxRanks {
		return fmt.Errorf("%s has more than %d ranks", s.names[0], maxRanks)
	}
	t.cells[i] = append(cells, c)
	return nil
}

// values returns what the sources came to.
func (t *tally) values() []float64 {
	vs := make([]float64, len(t.sources))
	for i, s := range t.sources {
		vs[i] = fold(t.cells[i], s.over) * s.scale()
	}
	return vs
}

// fold makes one number of what the processes of an engine tell. Those of one
// rank compute the same requests, so the largest of their numbers is the
// rank's: the others are as large, or behind.
func fold(cells []cell, over reduction) float64 {
	total, most, ranks := 0.0, math.NaN(), 0
	for i, c := range cells {
		if !leads(cells, i) {
			continue
		}
		ranks++
		total += c.v
		if !(c.v <= most) {
			most = c.v
		}
	}
	switch {
	case ranks == 0 || over == largest:
		return most
	case over == mean:
		return total / float64(ranks)
	default:
		return total
	}
}

// leads reports whether cells[i] is the first of the largest of its rank.
func leads(cells []cell, i int) bool {
	for j, c := range cells {
		if c.rank == cells[i].rank && (c.v > cells[i].v || c.v == cells[i].v && j < i) {
			return false
		}
	}
	return true
}

// nameLength returns how much of a line is the name, or the number, that it
// begins with.
func nameLength(line []byte) int {
	for i, c := range line {
		if c == '{' || c == ' ' || c == '\t' || c == '\n' || c == '\r' {
			return i
		}
	}
	return len(line)
}

// cutLabels splits what follows a name into the labels, without their braces,
// and the rest.
func cutLabels(b []byte) (labels, rest []byte, ok bool) {
	b = bytes.TrimLeft(b, " \t")
	if len(b) == 0 || b[0] != '{' {
		return nil, b, true
	}
	quoted := false
	for i := 1; i < len(b); i++ {
		switch {
		case b[i] == '"':
			quoted = !quoted
		case b[i] == '\\' && quoted:
			i++
		case b[i] == '}' && !quoted:
			return b[1:i], b[i+1:], true
		}
	}
	return nil, nil, false
}

// label returns the value of a label, as it is escaped; nothing if there is
// none of that name.
func label(labels []byte, name string) []byte {
	for len(labels) > 0 {
		key, rest, ok := bytes.Cut(labels, []byte(`="`))
		if !ok {
			return nil
		}
		end := 0
		for end < len(rest) && rest[end] != '"' {
			if rest[end] == '\\' {
				end++
			}
			end++
		}
		end = min(end, len(rest))
		if string(bytes.Trim(key, ", \t")) == name {
			return rest[:end]
		}
		labels = rest[min(end+1, len(rest)):]
	}
	return nil
}

// seed is the hash of nothing: FNV-1a's offset.
const seed uint64 = 14695981039346656037

// hash adds b to an FNV-1a hash. It ends with a byte that no text has, so that
// "1", "" and "", "1" differ.
func hash(h uint64, b []byte) uint64 {
	for _, c := range b {
		h = (h ^ uint64(c)) * 1099511628211
	}
	return (h ^ 0xff) * 1099511628211
}

// clip shortens what an engine sent, for an error.
func clip(b []byte) []byte { return bytes.TrimSpace(b[:min(len(b), 80)]) }

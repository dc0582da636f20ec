package workers

import (
	"io"
	"math"
	"slices"
	"time"
)

// A reading says where in an engine's metrics one number of a Report stands.
type reading struct {
	field string                    // its name, for people
	into  func(f *figures) *float64 // where it goes
	from  []source                  // newest engines first; the first that a page has is taken
}

// A source is the sum of all samples with one of some names, on one page.
type source struct {
	names  []string
	label  string   // if given, only samples count whose label of this name
	values []string // has one of these values
	number string   // if given, the number is the value of this label, not of the sample
	over   reduction
	times  float64 // factor to the unit of the Report; 0: 1
}

// A reduction makes one number of those of an engine's data-parallel ranks.
type reduction uint8

// The reductions.
const (
	sum     reduction = iota
	mean              // of shares
	largest           // of what is the same for all, or already a sum
)

// wants reports whether a sample with these labels counts.
func (s *source) wants(labels []byte) bool {
	return s.label == "" || slices.Contains(s.values, string(label(labels, s.label)))
}

func (s *source) scale() float64 {
	if s.times == 0 {
		return 1
	}
	return s.times
}

// figures is a Report in the making, with what it is worked out from where an
// engine does not say it outright.
type figures struct {
	Report
	started float64 // seconds since 1970
	usage   float64 // KVUsed as a share of KVCapacity
	blocks  float64 // KVCapacity in blocks
	full    float64 // requests of MaxContext that fit into KVCapacity
}

func newFigures() *figures {
	nan := math.NaN()
	return &figures{Report: unknown(), started: nan, usage: nan, blocks: nan, full: nan}
}

// read fills in what a metrics page tells.
func (f *figures) read(page io.Reader, table []reading) error {
	var sources []source
	for _, r := range table {
		sources = append(sources, r.from...)
	}
	values, err := scan(page, sources)
	if err != nil {
		return err
	}
	for _, r := range table {
		for i, v := range values[:len(r.from)] {
			if into := r.into(f); math.IsNaN(*into) && !math.IsNaN(v) {
				*into = values[i]
			}
		}
		values = values[len(r.from):]
	}
	return nil
}

// report works out what the engine did not say outright.
func (f *figures) report() Report {
	r := f.Report
	r.KVCapacity = or(r.KVCapacity, f.blocks*r.BlockSize)
	r.MaxContext = or(r.MaxContext, math.Round(r.KVCapacity/f.full))
	if !math.IsNaN(f.blocks) {
		r.KVCapacity -= r.BlockSize // vLLM counts one that it uses for nothing, but not in what is used
	}
	r.KVUsed = or(r.KVUsed, f.usage*r.KVCapacity)
	if !math.IsNaN(f.started) {
		r.Started = seconds(f.started)
	}
	return r
}

// or returns a, or b if a is not known.
func or(a, b float64) float64 {
	if math.IsNaN(a) {
		return b
	}
	return a
}

// seconds returns the time that is s seconds after 1970 began.
func seconds(s float64) time.Time {
	whole, part := math.Modf(s)
	return time.Unix(int64(whole), int64(part*1e9))
}

// named returns the sources of numbers that have had several names: newest
// first, each summed over ranks.
func named(names ...string) []source {
	var from []source
	for _, n := range names {
		from = append(from, source{names: []string{n}})
	}
	return from
}

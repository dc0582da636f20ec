package router

import (
	"cmp"
	"slices"
	"strconv"
	"sync"
	"time"

	"go.uber.org/zap/zapcore"
)

// What the access log writes in a second, at the most, beside the first line of
// each kind: together under the 10 000 lines in 30 s beyond which the journal
// drops what a unit says without regard to what it is.
const (
	mostWell = 200 // requests that went well, or whose client left
	mostIll  = 100 // the others
)

// mostKinds bounds how many kinds of lines are told apart.
const mostKinds = 64

// A kind is what lines have in common that are counted together.
type kind struct {
	level   zapcore.Level
	message string
	status  int
	code    string // of the error; empty: none
}

// String returns the status, and the code if there is one.
func (k kind) String() string {
	switch {
	case k.code == "":
		return strconv.Itoa(k.status)
	case k.status == 0:
		return k.code
	}
	return strconv.Itoa(k.status) + " " + k.code
}

// A leftOut is how many lines of a kind were not written.
type leftOut struct {
	kind kind
	n    int
}

// A sampler says which requests get a line in the access log: the first of each
// second, and what failed apart, so that neither a flood of requests hides a
// failure nor a flood of failures fills the disk. Of each kind of failure the
// first in a second is always written. Once a second, if some are left out, it
// says how many.
type sampler struct {
	say func(total int, by []leftOut)

	mu    sync.Mutex // guards the following
	until time.Time  // the end of this second
	well  int        // lines in it
	ill   int
	kinds map[kind]int // of failures that have a line, and of all that are left out, how many these are
	timer *time.Timer  // calls flush; nil: nothing is left out
}

// take reports whether a line of that kind may be written now.
func (s *sampler) take(now time.Time, k kind) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !now.Before(s.until) {
		s.until, s.well, s.ill = now.Add(time.Second), 0, 0
		if s.timer == nil {
			clear(s.kinds)
		}
	}
	if k.level < zapcore.WarnLevel {
		if s.well++; s.well <= mostWell {
			return true
		}
		s.leaveOutLocked(now, k)
		return false
	}
	_, seen := s.kinds[k]
	if s.ill++; s.ill <= mostIll || !seen && len(s.kinds) < mostKinds {
		s.addLocked(k, 0)
		return true
	}
	s.leaveOutLocked(now, k)
	return false
}

func (s *sampler) leaveOutLocked(now time.Time, k kind) {
	s.addLocked(k, 1)
	if s.timer == nil {
		s.timer = time.AfterFunc(s.until.Sub(now), s.flush)
	}
}

func (s *sampler) addLocked(k kind, n int) {
	if s.kinds == nil {
		s.kinds = map[kind]int{}
	}
	if _, ok := s.kinds[k]; !ok && len(s.kinds) >= mostKinds {
		k = kind{level: k.level, code: "others"}
	}
	s.kinds[k] += n
}

// flush says what has been left out since it was called last.
func (s *sampler) flush() {
	s.mu.Lock()
	var by []leftOut
	total := 0
	for k, n := range s.kinds {
		if n > 0 {
			by = append(by, leftOut{k, n})
			total += n
		}
	}
	clear(s.kinds)
	if s.timer != nil {
		s.timer.Stop()
		s.timer = nil
	}
	s.mu.Unlock()
	if total == 0 {
		return
	}
	slices.SortFunc(by, func(a, b leftOut) int { return cmp.Compare(a.kind.String(), b.kind.String()) })
	s.say(total, by)
}

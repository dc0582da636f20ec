package transfer

import (
	"cmp"
	"fmt"
)

// An Outcome is what can be said of a whole answer that is no failure.
type Outcome struct {
	Aborted bool  // the engine gave up on it: relayed, but no success
	Usage   Usage // for a list of answers their sum
}

// Verdict judges prefill's whole answer of status 200: no error if the prompt's
// blocks are there, an *EngineError if the engine reports an error or an abort
// in it, an error that wraps ErrNotJSON if it is cut short or garbage, and
// ErrNoAnswer if it is a bare text or number.
func Verdict(e Endpoint, body []byte) (Usage, error) {
	out, err := Whole(e, body)
	if err == nil && out.Aborted {
		err = &EngineError{Status: 500, Message: "prefill was aborted"}
	}
	return out.Usage, err
}

// Whole judges decode's whole JSON answer of status 200. An abort without a
// status is an outcome, because it is relayed as it is; the rest is as in
// Verdict.
func Whole(e Endpoint, body []byte) (Outcome, error) {
	s := scanner{b: body}
	start := s.space(0)
	out, said, end := s.judge(e, start, 0)
	switch {
	case end < 0 || !s.end(end):
		return Outcome{Usage: unknownUsage()}, fmt.Errorf("%w: %s, at byte %d of %d", ErrNotJSON, s.why, s.at, len(body))
	case body[start] != '{' && (e != Generate || body[start] != '['):
		return Outcome{Usage: unknownUsage()}, ErrNoAnswer
	case said != nil:
		return out, said
	}
	return out, nil
}

// judge scans the answer at i, or a list of them, inside depth lists. It
// returns the first failure that it reports, if any, and the offset behind it.
func (s *scanner) judge(e Endpoint, i, depth int) (out Outcome, said *EngineError, end int) {
	if e != Generate || i >= len(s.b) || s.b[i] != '[' || depth == maxDepth {
		ev, end := s.look(e, i, depth)
		return Outcome{Aborted: ev.Aborted, Usage: ev.Usage}, ev.Err, end
	}
	out.Usage = unknownUsage()
	el := s.array(i, depth)
	for n := 0; el.more(); n++ {
		one, bad, end := s.judge(e, el.start, depth+1)
		if el.end = end; n == 0 {
			out.Usage = one.Usage
		} else {
			out.Usage = out.Usage.plus(one.Usage)
		}
		out.Aborted = out.Aborted || one.Aborted
		said = cmp.Or(said, bad)
	}
	return out, said, el.behind
}

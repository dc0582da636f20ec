package transfer

import "fmt"

// An Outcome is what can be said of a whole answer that is no failure.
type Outcome struct {
	Aborted bool // the engine gave up on it: relayed, but no success
}

// Verdict judges prefill's whole answer of status 200: nil if the prompt's
// blocks are there, an *EngineError if the engine reports an error or an abort
// in it, and an error that wraps ErrNotJSON if it is cut short or garbage.
func Verdict(e Endpoint, body []byte) error {
	out, err := Whole(e, body)
	if err != nil {
		return err
	}
	if out.Aborted {
		return &EngineError{Status: 500, Message: "prefill was aborted"}
	}
	return nil
}

// Whole judges decode's whole JSON answer of status 200. An abort without a
// status is an outcome, because it is relayed as it is; the rest is as in
// Verdict.
func Whole(e Endpoint, body []byte) (Outcome, error) {
	s := scanner{b: body}
	start := s.space(0)
	end := s.value(start, 0)
	if end < 0 || !s.end(end) {
		return Outcome{}, fmt.Errorf("%w: %s, at byte %d of %d", ErrNotJSON, s.why, s.at, len(body))
	}
	return judge(e, body, start, end)
}

// judge looks at one scanned answer, or at each of a list of them.
func judge(e Endpoint, body []byte, start, end int) (Outcome, error) {
	if body[start] == '[' && e == Generate {
		var all Outcome
		for el := (&scanner{b: body}).array(start, 0); el.more(); {
			el.value()
			out, err := judge(e, body, el.start, el.end)
			if err != nil {
				return Outcome{}, err
			}
			all.Aborted = all.Aborted || out.Aborted
		}
		return all, nil
	}
	ev := look(e, body[start:end])
	if ev.Kind == Failure {
		return Outcome{}, ev.Err
	}
	return Outcome{Aborted: ev.Aborted}, nil
}

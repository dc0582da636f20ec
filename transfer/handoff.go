package transfer

import (
	"errors"
	"fmt"
)

// ErrBadHandOff reports that prefill answered 200 with hand-off parameters that
// must not reach a decode engine.
var ErrBadHandOff = errors.New("malformed hand-off parameters")

// The parameters that decode needs, in vLLM's order.
const (
	paramRemotePrefill = 1 << iota
	paramBlockIDs
	paramEngineID
	paramRequestID
	paramHost
	paramPort
	paramAll = 1<<iota - 1
)

// handoff returns the kv_transfer_params of prefill's answer as they are, or
// nil if prefill hands nothing over (the prompt was too short, or it has no
// connector). A vLLM decode server dies of null block ids and hangs without a
// request id, so all that it needs is checked; what else is in the object is
// not ours.
func handoff(answer []byte) ([]byte, error) {
	s := scanner{b: answer}
	var found []byte
	seen := false
	start := s.space(0)
	if start >= len(answer) || answer[start] != '{' {
		return nil, fmt.Errorf("%w: prefill's answer is not a JSON object", ErrBadHandOff)
	}
	m := s.object(start, 0)
	var buf [maxKeyLen]byte
	for m.more() {
		if string(m.name(answer, &buf)) != "kv_transfer_params" {
			continue
		}
		if seen {
			return nil, fmt.Errorf("%w: given twice", ErrBadHandOff)
		}
		seen = true
		if value := m.value(); value[0] != 'n' {
			found = value
		}
	}
	if m.behind < 0 || !s.end(m.behind) {
		return nil, fmt.Errorf("%w: prefill's answer is not JSON: %s, at byte %d", ErrBadHandOff, s.why, s.at)
	}
	if found == nil {
		return nil, nil
	}
	return found, checkParams(found)
}

func checkParams(params []byte) error {
	if params[0] != '{' {
		return fmt.Errorf("%w: kv_transfer_params is not an object", ErrBadHandOff)
	}
	have := 0
	s := scanner{b: params}
	m := s.object(0, 1)
	var buf [maxKeyLen]byte
	for m.more() {
		name := m.name(params, &buf)
		param, ok := checkParam(name, m.value())
		if !ok || have&param != 0 {
			return fmt.Errorf("%w: %s is unusable or given twice", ErrBadHandOff, string(name))
		}
		have |= param
	}
	if have != paramAll {
		return fmt.Errorf("%w: incomplete", ErrBadHandOff)
	}
	return nil
}

// checkParam returns which parameter a name is, 0 if none that we know, and
// whether its value can be used.
func checkParam(name, value []byte) (param int, ok bool) {
	switch string(name) {
	case "do_remote_prefill":
		return paramRemotePrefill, value[0] == 't'
	case "remote_block_ids":
		return paramBlockIDs, blockIDs(value)
	case "remote_engine_id":
		return paramEngineID, value[0] == '"' && len(value) > 2
	case "remote_request_id":
		return paramRequestID, value[0] == '"' && len(value) > 2
	case "remote_host":
		return paramHost, value[0] == '"' && len(value) > 2
	case "remote_port":
		n, ok := integer(value)
		return paramPort, ok && n > 0
	}
	return 0, true
}

// blockIDs tells whether a value is a list of block numbers, or one such list
// for each group of the KV cache. There must be one block at least: given none,
// decode waits for them all the same.
func blockIDs(value []byte) bool {
	if value[0] != '[' {
		return false
	}
	numbers, lists, inLists := 0, 0, 0
	s := scanner{b: value}
	for e := s.array(0, 0); e.more(); {
		if value[e.start] == '[' {
			n := countNumbers(e.value())
			if n < 0 {
				return false
			}
			lists, inLists = lists+1, inLists+n
			continue
		}
		if countOf(e.value()) < 0 {
			return false
		}
		numbers++
	}
	return numbers > 0 && lists == 0 || numbers == 0 && inLists > 0
}

// countNumbers returns how many numbers from 0 a list holds, -1 if it holds
// anything else.
func countNumbers(value []byte) int {
	n := 0
	s := scanner{b: value}
	for e := s.array(0, 0); e.more(); n++ {
		if countOf(e.value()) < 0 {
			return -1
		}
	}
	return n
}

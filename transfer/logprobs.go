package transfer

import "strconv"

// logprobLists puts what a completion's logprobs say of the prompt, which only
// prefill knows, in front of what decode's say of the answer. at and into are
// the logprobs objects of the same choice in prefill's and decode's answer.
//
// Each list of prefill's ends in the one token that it generated, which decode
// has too. vLLM counts text offsets up over prompt and answer, so decode's are
// moved behind the prompt; SGLang writes -1 for all.
func (p *patch) logprobLists(prefill []byte, at, into int) error {
	m := (&scanner{b: prefill}).object(at, 3)
	var buf [maxKeyLen]byte
	for m.more() {
		name := string(m.name(prefill, &buf))
		own := find(p.base, into, name)
		if prefill[m.start] != '[' || own == nil || p.base[own.start] != '[' {
			continue
		}
		before, last := butLast(prefill, m.start)
		if before == nil {
			continue
		}
		rest := p.base[own.start+1 : own.end]
		if offset, ok := integer(last); name == "text_offset" && ok && offset > 0 {
			if rest, ok = moved(rest, offset); !ok {
				return ErrUnfit
			}
		}
		if filled(p.base[own.start:own.end]) {
			p.set(own.start, own.end, []byte("["), before, []byte(","), rest)
		} else {
			p.set(own.start, own.end, []byte("["), before, rest)
		}
	}
	return nil
}

// butLast returns the elements of a scanned array but the last, as they are
// spelt and with the commas between them, and the last. before is nil if there
// is at most one.
func butLast(b []byte, start int) (before, last []byte) {
	end := 0
	el := (&scanner{b: b}).array(start, 0)
	for el.more() {
		if last != nil {
			before = b[start+1 : end]
		}
		last, end = el.value(), el.end
	}
	return before, last
}

// moved adds offset to each number of the inside of an array, its closing
// bracket included.
func moved(rest []byte, offset int64) (out []byte, ok bool) {
	out = make([]byte, 0, 2*len(rest))
	for i := 0; i < len(rest); {
		j := i
		for j < len(rest) && isNumber(rest[j]) {
			j++
		}
		if j == i {
			out = append(out, rest[i])
			i++
			continue
		}
		n, ok := integer(rest[i:j])
		if !ok {
			return nil, false
		}
		out = strconv.AppendInt(out, n+offset, 10)
		i = j
	}
	return out, true
}

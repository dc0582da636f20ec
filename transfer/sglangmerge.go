package transfer

import "bytes"

// inputLogprobs returns the key by which the client asks SGLang for logprobs of
// the prompt, "" if it does not. Only prefill computes them: decode sends empty
// lists in their places.
func (r *Request) inputLogprobs() string {
	switch {
	case r.endpoint == Completions && r.truth(keyEcho) && r.truth(keyLogprobs):
		return "echo"
	case r.endpoint == Generate && r.truth(keyReturnLogprob):
		if v := r.value(keyLogprobStartLen); v != nil && string(v) != "-1" {
			return "logprob_start_len"
		}
		if r.value(keyTokenIDsLogprob) != nil {
			return "token_ids_logprob"
		}
	}
	return ""
}

// Merge implements Dialect.
func (SGLang) Merge(req *Request, prefill, decode []byte) ([]byte, error) {
	if req.inputLogprobs() == "" {
		return decode, nil
	}
	s, t := scanner{b: prefill}, scanner{b: decode}
	from, into := s.space(0), t.space(0)
	if s.value(from, 0) < 0 || t.value(into, 0) < 0 {
		return nil, ErrUnfit
	}
	p := &patch{base: decode}
	merge := func(from, into int) error { return p.metaInfo(prefill, from, into) }
	var err error
	switch {
	case req.endpoint == Completions:
		err = p.choices(prefill, from, into)
	case prefill[from] == '[':
		err = pairs(prefill, from, decode, into, merge)
	default:
		err = merge(from, into)
	}
	if err != nil {
		return nil, err
	}
	return p.apply(), nil
}

// metaInfo takes over what prefill says of the prompt's tokens.
func (p *patch) metaInfo(prefill []byte, from, into int) error {
	source, target := find(prefill, from, "meta_info"), find(p.base, into, "meta_info")
	if source == nil || target == nil || prefill[source.start] != '{' || p.base[target.start] != '{' {
		return ErrUnfit
	}
	m := (&scanner{b: prefill}).object(source.start, 0)
	var buf [maxKeyLen]byte
	var added []byte
	for m.more() {
		name := m.name(prefill, &buf)
		value := m.value()
		if string(name) == "output_token_ids_logprobs" {
			p.firstToken(prefill, m.start, find(p.base, target.start, string(name)))
			continue
		}
		if !bytes.HasPrefix(name, []byte("input_")) || !bytes.Contains(name, []byte("logprobs")) || !filled(value) {
			continue
		}
		if own := find(p.base, target.start, string(name)); own != nil {
			p.set(own.start, own.end, value)
			continue
		}
		if added != nil {
			added = append(added, ',')
		}
		added = append(added, prefill[m.key:m.end]...)
	}
	if added != nil {
		p.insert(target.end, added)
	}
	return nil
}

// firstToken fills in what decode does not know of the first token, because
// prefill generated it: the list at from holds it alone, decode's begins with
// null.
func (p *patch) firstToken(prefill []byte, from int, own *member) {
	if prefill[from] != '[' || own == nil || p.base[own.start] != '[' {
		return
	}
	a, b := (&scanner{b: prefill}).array(from, 0), (&scanner{b: p.base}).array(own.start, 0)
	if a.more() && b.more() && b.value()[0] == 'n' {
		p.set(b.start, b.end, a.value())
	}
}

// choices merges the logprobs of each choice of a completion.
func (p *patch) choices(prefill []byte, from, into int) error {
	source, target := find(prefill, from, "choices"), find(p.base, into, "choices")
	if source == nil || target == nil {
		return ErrUnfit
	}
	return pairs(prefill, source.start, p.base, target.start, func(from, into int) error {
		return p.choiceLogprobs(prefill, from, into)
	})
}

// choiceLogprobs merges the logprobs of one choice of a completion.
func (p *patch) choiceLogprobs(prefill []byte, from, into int) error {
	a, b := find(prefill, from, "logprobs"), find(p.base, into, "logprobs")
	if a == nil || b == nil || prefill[a.start] != '{' || p.base[b.start] != '{' {
		return ErrUnfit
	}
	return p.logprobLists(prefill, a.start, b.start)
}

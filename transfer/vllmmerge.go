package transfer

import "bytes"

// promptParts tells whether the client asks vLLM for something that only
// prefill may be asked for: its prompt, or the prompt's logprobs.
func (r *Request) promptParts() bool {
	return r.truth(keyEcho) || r.value(keyPromptLogprobs) != nil
}

// checkPromptParts refuses what cannot be put together rightly from the answers
// of both legs.
func (r *Request) checkPromptParts() error {
	name := "prompt_logprobs"
	if r.truth(keyEcho) {
		name = "echo"
	}
	switch {
	case !r.promptParts():
		return nil
	case r.Stream():
		return unsupported(name+" in a stream", name, CodeUnsupported, nameVLLMNIXL)
	case name != "echo":
		return nil
	case string(r.value(keyMaxTokens)) == "0":
		return unsupported("echo with max_tokens 0", "max_tokens", CodeUnsupported, nameVLLMNIXL)
	case r.endpoint == Completions && r.value(keyPrompt) != nil && r.promptText() == nil:
		return unsupported("echo of token ids", "echo", CodeUnsupported, nameVLLMNIXL)
	}
	if content := r.lastContent(); content != nil && content[0] != '"' {
		return unsupported("echo of a message in parts", "echo", CodeUnsupported, nameVLLMNIXL)
	}
	return nil
}

// withoutPromptParts adds the cuts of what only prefill may be asked. Asked for
// it, decode would need all of the prompt's hidden states, which do not come
// over with its blocks.
func (r *Request) withoutPromptParts(cuts []cut) []cut {
	if r.truth(keyEcho) {
		cuts = append(cuts, cutOf(&r.known[keyEcho]))
	}
	if r.value(keyPromptLogprobs) != nil {
		cuts = append(cuts, cutOf(&r.known[keyPromptLogprobs]))
	}
	return cuts
}

// promptText returns a completion's prompt as the JSON string that it is, also
// when it stands in a list by itself; nil if it is none.
func (r *Request) promptText() []byte {
	v := r.value(keyPrompt)
	if v == nil || v[0] == '"' {
		return v
	}
	s := scanner{b: v}
	e := s.array(0, 1)
	if !e.more() {
		return nil
	}
	only := e.value()
	if e.more() || only[0] != '"' {
		return nil
	}
	return only
}

// lastMessage returns where the last message stands in the body, or -1.
func (r *Request) lastMessage() int {
	at := -1
	if r.value(keyMessages) == nil {
		return at
	}
	s := scanner{b: r.body}
	for e := s.array(int(r.known[keyMessages].start), 1); e.more(); {
		at = e.start
	}
	return at
}

// lastContent returns the content of the last message, nil if null or absent.
func (r *Request) lastContent() []byte {
	at := r.lastMessage()
	if at < 0 {
		return nil
	}
	if m := find(r.body, at, "content"); m != nil && r.body[m.start] != 'n' {
		return r.body[m.start:m.end]
	}
	return nil
}

// Merge implements Dialect.
func (VLLMNIXL) Merge(req *Request, prefill, decode []byte) ([]byte, error) {
	if !req.promptParts() || req.Stream() {
		return decode, nil
	}
	s, t := scanner{b: prefill}, scanner{b: decode}
	from, into := s.space(0), t.space(0)
	end := t.value(into, 0)
	if s.value(from, 0) < 0 || end < 0 {
		return nil, ErrUnfit
	}
	p := &patch{base: decode}
	var err error
	if req.endpoint == Chat {
		p.takeOver(prefill, from, into, end)
	}
	a, b, bEnd := firstChoice(prefill, from), firstChoice(decode, into), 0
	if a.start == 0 || b.start == 0 {
		return nil, ErrUnfit
	}
	bEnd = b.end
	if req.endpoint == Completions {
		p.takeOver(prefill, a.start, b.start, bEnd)
		err = p.echoCompletion(req, prefill, a.start, b.start)
	} else {
		err = p.echoMessage(req, prefill, a.start, b.start)
	}
	if err != nil {
		return nil, err
	}
	return p.apply(), nil
}

// takeOver puts prefill's prompt_logprobs into the object of decode's answer
// that has them.
func (p *patch) takeOver(prefill []byte, from, into, end int) {
	m := find(prefill, from, "prompt_logprobs")
	if m == nil || prefill[m.start] == 'n' {
		return
	}
	if own := find(p.base, into, "prompt_logprobs"); own != nil {
		p.set(own.start, own.end, prefill[m.start:m.end])
		return
	}
	p.insert(end, prefill[m.key:m.end])
}

// firstChoice returns the first element of an answer's choices; the zero value
// if it has none.
func firstChoice(b []byte, start int) (e elements) {
	m := find(b, start, "choices")
	if m == nil || b[m.start] != '[' {
		return elements{}
	}
	e = (&scanner{b: b}).array(m.start, 0)
	if !e.more() || e.value()[0] != '{' {
		return elements{}
	}
	return e
}

// echoCompletion puts the prompt in front of a completion's text, and its
// tokens in front of the logprobs.
func (p *patch) echoCompletion(req *Request, prefill []byte, from, into int) error {
	if !req.truth(keyEcho) {
		return nil
	}
	if !req.truth(keyReturnTokenIDs) { // with them vLLM echoes tokens, not the text
		if err := p.echo(req.promptText(), prefill, find(prefill, from, "text"), find(p.base, into, "text")); err != nil {
			return err
		}
	}
	if req.value(keyLogprobs) == nil {
		return nil
	}
	return p.choiceLogprobs(prefill, from, into)
}

// echoMessage puts the last message in front of the answer's, if it is the
// answer's beginning, as vLLM does.
func (p *patch) echoMessage(req *Request, prefill []byte, from, into int) error {
	last := req.lastMessage()
	a, b := find(prefill, from, "message"), find(p.base, into, "message")
	if !req.truth(keyEcho) || last < 0 {
		return nil
	}
	if a == nil || b == nil {
		return ErrUnfit
	}
	role, answers := find(req.body, last, "role"), find(prefill, a.start, "role")
	if role == nil || answers == nil ||
		!isText(req.body[role.start:role.end], text(prefill[answers.start:answers.end])) {
		return nil
	}
	content := req.lastContent()
	if content == nil {
		return nil
	}
	return p.echo(content, prefill, find(prefill, a.start, "content"), find(p.base, b.start, "content"))
}

// echo puts a JSON string of the client's in front of decode's text, if
// prefill's answer says that this is what the engine echoes.
func (p *patch) echo(said, prefill []byte, from, into *member) error {
	if said == nil || from == nil || into == nil {
		return ErrUnfit
	}
	if !bytes.HasPrefix([]byte(text(prefill[from.start:from.end])), []byte(text(said))) {
		return ErrUnfit
	}
	switch own := p.base[into.start:into.end]; own[0] {
	case '"':
		p.set(into.start, into.end, said[:len(said)-1], own[1:])
	case 'n':
		p.set(into.start, into.end, said)
	default:
		return ErrUnfit
	}
	return nil
}

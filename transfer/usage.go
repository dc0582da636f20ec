package transfer

// A Usage is what an engine counted for one answer, -1 where it does not say.
// Decode's Cached means nothing for the prefix cache: it counts the blocks that
// came over from prefill.
type Usage struct {
	Prompt     int64 // tokens of the prompt
	Completion int64 // tokens generated
	Cached     int64 // tokens of the prompt that were in the KV cache already
}

// unknownUsage is what an answer says that says nothing.
func unknownUsage() Usage { return Usage{Prompt: -1, Completion: -1, Cached: -1} }

// AnswerUsage reads the usage of an answer, or of the event of a stream that
// has it (OpenAI's endpoints: usually the last; /generate: each, counting up).
// For a list of answers it is their sum. data may be a whole event.
func AnswerUsage(e Endpoint, data []byte) Usage {
	b := payload(data)
	s := scanner{b: b}
	start := s.space(0)
	if start >= len(b) {
		return unknownUsage()
	}
	switch b[start] {
	case '{':
		return usageOf(b, start)
	case '[':
		if e == Generate {
			return usageSum(b, start)
		}
	}
	return unknownUsage()
}

// PrefillUsage returns how many tokens prefill says the prompt has, and how many
// of them it had cached; -1 is unknown. known tells whether cachedTokens is.
func PrefillUsage(e Endpoint, answer []byte) (promptTokens, cachedTokens int64, known bool) {
	u := AnswerUsage(e, answer)
	return u.Prompt, u.Cached, u.Cached >= 0
}

func usageSum(b []byte, start int) Usage {
	var sum Usage
	n := 0
	for el := (&scanner{b: b}).array(start, 0); el.more(); n++ {
		if !el.begins('{') {
			return unknownUsage()
		}
		u := usageOf(b, el.start)
		sum = Usage{plus(sum.Prompt, u.Prompt), plus(sum.Completion, u.Completion), plus(sum.Cached, u.Cached)}
	}
	if n == 0 {
		return unknownUsage()
	}
	return sum
}

// plus adds counts; one unknown makes the sum unknown.
func plus(a, b int64) int64 {
	if a < 0 || b < 0 {
		return -1
	}
	return a + b
}

func usageOf(b []byte, start int) Usage {
	u := unknownUsage()
	remote := int64(-1)
	m := (&scanner{b: b}).object(start, 0)
	var buf [maxKeyLen]byte
	for m.more() {
		if !m.begins('{') {
			continue
		}
		switch string(m.name(b, &buf)) {
		case "usage", "meta_info":
			u.read(b, m.start)
		case "kv_transfer_params": // vLLM tells here without being started with a flag
			remote = count(b, m.start, "remote_prefill_cached_tokens")
		}
	}
	if m.behind < 0 {
		return unknownUsage()
	}
	if remote >= 0 {
		u.Cached = remote
	}
	return u
}

// read takes what a usage or meta_info object says.
func (u *Usage) read(b []byte, start int) {
	m := (&scanner{b: b}).object(start, 1)
	var buf [maxKeyLen]byte
	for m.more() {
		value := m.value()
		switch string(m.name(b, &buf)) {
		case "prompt_tokens":
			u.Prompt = countOf(value)
		case "completion_tokens":
			u.Completion = countOf(value)
		case "cached_tokens":
			u.Cached = countOf(value)
		case "prompt_tokens_details":
			if value[0] == '{' {
				u.Cached = count(b, m.start, "cached_tokens")
			}
		}
	}
}

// count returns the count that a key of the object at start holds, or -1.
func count(b []byte, start int, name string) int64 {
	n := int64(-1)
	m := (&scanner{b: b}).object(start, 1)
	var buf [maxKeyLen]byte
	for m.more() {
		if string(m.name(b, &buf)) == name {
			n = countOf(m.value())
		}
	}
	return n
}

func countOf(value []byte) int64 {
	if n, ok := integer(value); ok && n >= 0 {
		return n
	}
	return -1
}

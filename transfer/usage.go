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

// plus adds the usage of another answer; one unknown makes a sum unknown.
func (u Usage) plus(v Usage) Usage {
	return Usage{plus(u.Prompt, v.Prompt), plus(u.Completion, v.Completion), plus(u.Cached, v.Cached)}
}

func plus(a, b int64) int64 {
	if a < 0 || b < 0 {
		return -1
	}
	return a + b
}

// read takes what a usage object says.
func (u *Usage) read(m *members) {
	in := m.s.object(m.start, m.depth)
	var buf [maxKeyLen]byte
	for in.more() {
		u.note(in.name(in.s.b, &buf), &in)
	}
	m.end = in.behind
}

// note takes what a member of a usage or meta_info object says.
func (u *Usage) note(name []byte, m *members) {
	switch string(name) {
	case "prompt_tokens":
		u.Prompt = countOf(m.value())
	case "completion_tokens":
		u.Completion = countOf(m.value())
	case "cached_tokens":
		u.Cached = countOf(m.value())
	case "prompt_tokens_details":
		if m.begins('{') {
			u.Cached = count(m, "cached_tokens")
		}
	}
}

// count returns the count that a key of an object holds, or -1.
func count(m *members, name string) int64 {
	n := int64(-1)
	in := m.s.object(m.start, m.depth)
	var buf [maxKeyLen]byte
	for in.more() {
		if string(in.name(in.s.b, &buf)) == name {
			n = countOf(in.value())
		}
	}
	m.end = in.behind
	return n
}

func countOf(value []byte) int64 {
	if n, ok := integer(value); ok && n >= 0 {
		return n
	}
	return -1
}

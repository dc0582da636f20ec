package transfer

import "bytes"

// An EventKind says what an event of a stream is, for the rule that holds a
// stream back until it is known to be good.
type EventKind uint8

// The kinds of events.
const (
	Comment EventKind = iota // a comment, a blank line: nothing for the client's program
	Quiet                    // a role, an empty delta, usage only: held back with the comments
	Content                  // something generated, or of a shape that we do not know
	Finish                   // has a finish reason, with or without content
	Failure                  // the engine's error inside the stream
	Done                     // [DONE]
)

// An Event is what Classify found.
type Event struct {
	Kind    EventKind
	Aborted bool         // a Finish whose reason is abort or error
	Err     *EngineError // of a Failure
	Usage   Usage        // OpenAI's endpoints: usually in the last event; /generate: in each, counting up
}

// Classify says what one event of a stream is. data is the whole event as
// NextEvent cuts it, or its payload alone. Only keys in their places count,
// never text that looks like them; what is not understood is Content, because a
// stream must not be held back for ever.
func Classify(e Endpoint, data []byte) Event {
	p := bytes.TrimSpace(payload(data))
	switch {
	case len(p) == 0:
		return Event{Kind: Comment, Usage: unknownUsage()}
	case string(p) == "[DONE]":
		return Event{Kind: Done, Usage: unknownUsage()}
	}
	s := scanner{b: p}
	ev, end := s.look(e, 0, 0)
	if end < 0 || !s.end(end) {
		return Event{Kind: Content, Usage: unknownUsage()}
	}
	return ev
}

// look says in one scan what the value at i, inside depth arrays and objects,
// is as a payload or an answer. It returns the offset behind it, or -1.
func (s *scanner) look(e Endpoint, i, depth int) (ev Event, end int) {
	v := view{b: s.b, usage: unknownUsage(), remote: -1}
	if i >= len(s.b) || s.b[i] != '{' {
		return Event{Kind: Content, Usage: unknownUsage()}, s.value(i, depth)
	}
	m := s.object(i, depth)
	var buf [maxKeyLen]byte
	for m.more() {
		name := m.name(s.b, &buf)
		switch {
		case string(name) == "error":
			v.failed = v.failed || m.value()[0] != 'n'
		case string(name) == "object":
			v.failed = v.failed || isText(m.value(), "error")
		case string(name) == "kv_transfer_params" && m.begins('{'):
			v.remote = count(&m, "remote_prefill_cached_tokens")
		case e == Generate:
			v.generate(name, &m)
		default:
			v.openAI(name, &m)
		}
	}
	if m.behind < 0 {
		return Event{}, -1
	}
	return v.event(i, m.behind), m.behind
}

// A view gathers what the members of a payload say.
type view struct {
	b        []byte
	failed   bool
	known    bool // of a shape that we know
	content  bool
	finished bool
	aborted  bool
	abort    *EngineError // an abort of /generate that has a status
	usage    Usage
	remote   int64 // what vLLM says of the cache without being started with a flag, or -1
}

// event says what the payload from i to end is.
func (v *view) event(i, end int) Event {
	ev := Event{Kind: Quiet, Usage: v.usage}
	if v.remote >= 0 {
		ev.Usage.Cached = v.remote
	}
	switch {
	case v.failed:
		in := readEnvelope(v.b, i, true)
		ev.Kind, ev.Err = Failure, &EngineError{Status: in.status(), Message: in.message, Type: in.kind, Raw: v.b[i:end]}
	case v.abort != nil:
		ev.Kind, ev.Err = Failure, v.abort
	case v.finished:
		ev.Kind, ev.Aborted = Finish, v.aborted
	case v.content || !v.known:
		ev.Kind = Content
	}
	return ev
}

func (v *view) openAI(name []byte, m *members) {
	switch {
	case string(name) == "usage" && m.begins('{'):
		v.known = true
		v.usage.read(m)
	case string(name) == "choices" && m.begins('['):
		v.known = true
		el := m.s.array(m.start, m.depth)
		for el.more() {
			if !el.begins('{') {
				v.content = true
				continue
			}
			c := el.s.object(el.start, el.depth)
			v.choice(&c)
			el.end = c.behind
		}
		m.end = el.behind
	}
}

func (v *view) choice(m *members) {
	var buf [maxKeyLen]byte
	for m.more() {
		switch string(m.name(v.b, &buf)) {
		case "index", "stop_reason", "matched_stop", "prompt_token_ids", "prompt_logprobs":
		case "finish_reason":
			if value := m.value(); value[0] != 'n' {
				v.finished = true
				v.aborted = v.aborted || isText(value, "abort") || isText(value, "error")
			}
		case "delta", "message":
			v.delta(m)
		default:
			v.content = v.content || filled(m.value())
		}
	}
}

func (v *view) delta(m *members) {
	if !m.begins('{') {
		v.content = v.content || !m.begins('n')
		return
	}
	d := m.s.object(m.start, m.depth)
	var buf [maxKeyLen]byte
	for d.more() {
		if string(d.name(v.b, &buf)) != "role" {
			v.content = v.content || filled(d.value())
		}
	}
	m.end = d.behind
}

func (v *view) generate(name []byte, m *members) {
	switch {
	case string(name) == "text", string(name) == "output_ids":
		v.known = true
		v.content = v.content || filled(m.value())
	case string(name) == "meta_info" && m.begins('{'):
		v.known = true
		v.metaInfo(m)
	}
}

func (v *view) metaInfo(m *members) {
	info := m.s.object(m.start, m.depth)
	var buf [maxKeyLen]byte
	for info.more() {
		name := info.name(v.b, &buf)
		if string(name) != "finish_reason" {
			v.usage.note(name, &info)
		} else if !info.begins('n') {
			v.finished = true
			v.reason(&info)
		}
	}
	m.end = info.behind
}

// reason reads /generate's finish_reason, which is an object.
func (v *view) reason(m *members) {
	if !m.begins('{') {
		return
	}
	r := m.s.object(m.start, m.depth)
	var buf [maxKeyLen]byte
	var status, message []byte
	abort := false
	for r.more() {
		switch string(r.name(v.b, &buf)) {
		case "type":
			abort = isText(r.value(), "abort")
		case "message":
			message = r.value()
		case "status_code":
			status = r.value()
		}
	}
	m.end = r.behind
	v.aborted = v.aborted || abort
	if !abort || status == nil || status[0] == 'n' {
		return
	}
	e := &EngineError{Status: 500, Message: text(message), Type: "abort"}
	if n := number(status); 400 <= n && n <= 599 {
		e.Status = int(n)
	}
	v.abort = e
}

// filled tells whether a value holds anything.
func filled(value []byte) bool {
	switch value[0] {
	case 'n':
		return false
	case '"':
		return len(value) > 2
	case '[', '{':
		return len(bytes.TrimSpace(value[1:len(value)-1])) > 0
	}
	return true
}

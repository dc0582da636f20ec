package transfer

import "strconv"

const nameSGLang = "sglang"

// SGLang is the dialect of SGLang engines. Both legs are sent at once and meet
// in a room at prefill's bootstrap server: prefill's answer does not come
// before decode has registered there.
//
// The zero value is ready to use.
type SGLang struct{}

// Traits implements Dialect.
func (SGLang) Traits() Traits {
	return Traits{Name: nameSGLang, Order: Concurrent, Endpoints: [endpoints]bool{Chat: true, Completions: true, Generate: true}}
}

// Check implements Dialect. The engine puts all samples of a prompt into one
// room, where all but one wait for ever.
func (SGLang) Check(req *Request) error {
	if req.several != "" {
		return unsupported(req.several+">1", req.several, CodeN, nameSGLang)
	}
	if bad := req.tooMany(); bad != nil {
		return bad
	}
	if name := req.inputLogprobs(); name != "" && req.Stream() {
		return unsupported("logprobs of the prompt in a stream", name, CodeUnsupported, nameSGLang)
	}
	return nil
}

// Prefill implements Dialect.
func (d SGLang) Prefill(req *Request, a Attempt) (Leg, error) {
	var few [fewCuts]cut
	return req.leg(req.quiet(few[:0]), d.keys(req, a)), nil
}

// Decode implements Dialect.
func (d SGLang) Decode(req *Request, a Attempt, _ []byte) (Leg, error) {
	var few [fewCuts]cut
	l := req.leg(few[:0], d.keys(req, a))
	l.HandedOff = true
	l.Merged = req.inputLogprobs() != ""
	return l, nil
}

// quiet adds the cuts that make a leg answer with one JSON value.
func (r *Request) quiet(cuts []cut) []cut {
	if r.Stream() {
		cuts = append(cuts, setTo(&r.known[keyStream], "false"))
	}
	if m := &r.known[keyStreamOptions]; m.end != 0 {
		cuts = append(cuts, cutOf(m))
	}
	return cuts
}

// keys writes, behind a comma, the hand-off keys that both legs carry: one of
// each, or for a list of prompts lists of its length.
func (SGLang) keys(req *Request, a Attempt) []byte {
	host := appendText(make([]byte, 0, 64), a.BootstrapHost)
	port := append(make([]byte, 0, 8), "null"...)
	if a.BootstrapPort != 0 {
		port = strconv.AppendInt(port[:0], int64(a.BootstrapPort), 10)
	}
	n := req.Batch()
	b := make([]byte, 0, 96+(n+1)*(len(host)+len(port)+64))
	b = append(b, `,"bootstrap_host":`...)
	b = list(b, n, func(b []byte, _ int) []byte { return append(b, host...) })
	b = append(b, `,"bootstrap_port":`...)
	b = list(b, n, func(b []byte, _ int) []byte { return append(b, port...) })
	b = append(b, `,"bootstrap_room":`...)
	b = list(b, n, func(b []byte, i int) []byte { return strconv.AppendUint(b, a.Rooms[i], 10) })
	b = append(b, `,"rid":`...)
	return list(b, n, func(b []byte, i int) []byte { return appendText(b, a.RID(req, i)) })
}

// list writes one element for n = 0, else a list of n elements.
func list(b []byte, n int, element func(b []byte, i int) []byte) []byte {
	if n == 0 {
		return element(b, 0)
	}
	for i := range n {
		b = append(b, "[,"[min(i, 1)])
		b = element(b, i)
	}
	return append(b, ']')
}

// appendText writes a string of ours as JSON.
func appendText(b []byte, s string) []byte {
	b = append(b, '"')
	for i := range len(s) {
		switch c := s[i]; {
		case c == '"' || c == '\\':
			b = append(b, '\\', c)
		case c < ' ':
			b = append(b, `\u00`...)
			b = append(b, "0123456789abcdef"[c>>4], "0123456789abcdef"[c&15])
		default:
			b = append(b, c)
		}
	}
	return append(b, '"')
}

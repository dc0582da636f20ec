package main

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"strings"
	"time"

	"pdrouter/sim"
)

// A step is one request of a random schedule, and what engines are told before
// it is sent.
type step struct {
	orders []order

	path, body string
	stream     bool
	http       int           // major version
	leaves     time.Duration // after which the client leaves; 0: it stays
	refused    string        // code of the error that it must get before any worker is touched
}

// An order tells one engine to fail, or to work again.
type order struct {
	engine int // prefill engines come first
	clear  bool
	fault  sim.Fault
}

func (o order) String() string {
	if o.clear {
		return fmt.Sprintf("engine %d works again", o.engine)
	}
	return fmt.Sprintf("engine %d fails: %+v", o.engine, o.fault)
}

// String shows a step with no more of its body than is of use to a reader.
func (s step) String() string {
	body := s.body
	if len(body) > 300 {
		body = body[:200] + " ... " + body[len(body)-90:]
	}
	return fmt.Sprintf("POST %s (stream %t, HTTP/%d, leaves after %v)\n%s", s.path, s.stream, s.http, s.leaves, body)
}

// A scheduler makes steps. The same seed makes the same ones.
type scheduler struct {
	*rand.Rand
	dialect string
}

// oneIn is true one time in n.
func (r scheduler) oneIn(n int) bool { return r.IntN(n) == 0 }

// steps returns n steps.
func (r scheduler) steps(n int) []step {
	list := make([]step, n)
	for i := range list {
		list[i] = r.request()
		if r.oneIn(4) {
			list[i].orders = append(list[i].orders, order{engine: r.IntN(4), clear: true})
		}
		if r.oneIn(4) {
			list[i].orders = append(list[i].orders, order{engine: r.IntN(4), fault: r.fault()})
		}
	}
	return list
}

// fault returns any way to fail, mostly for a few requests.
func (r scheduler) fault() sim.Fault {
	kinds := faultKinds()
	if r.oneIn(3) { // those that strike amid an answer are the hardest to get right
		kinds = []string{sim.FaultDie, sim.FaultCloseMid, sim.FaultEndEarly, sim.FaultStall}
	}
	f := sim.Fault{
		Kind: kinds[r.IntN(len(kinds))], Nth: r.IntN(3), Count: r.IntN(4),
		Delay: time.Duration(r.IntN(8)) * time.Millisecond, Tokens: r.IntN(14), Comments: r.IntN(4),
		Status: [...]int{400, 429, 500, 503}[r.IntN(4)],
	}
	if f.Kind == sim.FaultShortJSON {
		f.Leg = sim.Prefill // which never streams: the fault is one of JSON
	}
	if r.oneIn(2) {
		f.Body = `{"error":{"message":"told to fail","type":"x","param":null,"code":"told"}}`
	}
	if r.oneIn(8) {
		f.Path = "/abort_request"
	}
	return f
}

// request returns a request of any kind that a client may send.
func (r scheduler) request() step {
	body := map[string]any{"model": "sim-model"}
	s := step{stream: r.oneIn(2), http: 1 + r.IntN(2)}
	kind := r.IntN(10)
	if r.dialect == sim.VLLMNixl && !r.oneIn(4) {
		kind %= 7 // the others are refused there
	}
	switch kind {
	case 0, 1, 2, 3:
		s.path = "/v1/chat/completions"
		body["messages"] = []any{
			map[string]any{"role": "system", "content": r.prompt()},
			map[string]any{"role": "user", "content": r.prompt()},
		}
	case 4, 5, 6:
		s.path, body["prompt"] = "/v1/completions", r.prompt()
		if !s.stream && r.oneIn(6) {
			body["echo"] = true
		}
	case 7, 8:
		s.path, body["text"] = "/generate", r.prompt()
		delete(body, "model")
		if r.dialect == sim.VLLMNixl {
			s.refused = "not_implemented"
		}
	case 9:
		s.path, body["prompt"] = "/v1/completions", []string{r.prompt(), r.prompt(), r.prompt()}
		if r.dialect == sim.VLLMNixl {
			s.refused = "unsupported_batch"
		}
	}
	r.limits(s, body)
	r.misuse(&s, body)
	if r.oneIn(5) {
		s.leaves = time.Duration(1+r.IntN(150)) * time.Millisecond
	}
	b, err := json.Marshal(body)
	if err != nil {
		panic(err)
	}
	s.body = string(b)
	return s
}

// prompt returns a new prompt, or one of a few, so that prefix caches and load
// bounds have their say.
func (r scheduler) prompt() string {
	if r.oneIn(2) {
		return prompt(r.IntN(6), 2500)
	}
	return prompt(100+r.IntN(1000), 10+r.IntN(4000))
}

// limits says how long the answer may be.
func (r scheduler) limits(s step, body map[string]any) {
	limit, name := body, "max_tokens"
	if s.path == "/generate" {
		limit, name = map[string]any{}, "max_new_tokens"
		body["sampling_params"] = limit
	}
	limit[name] = 1 + r.IntN(30)
	if r.oneIn(3) {
		limit["ignore_eos"] = true
	}
	if s.stream {
		body["stream"] = true
		if s.path != "/generate" && r.oneIn(3) {
			body["stream_options"] = map[string]any{"include_usage": true}
		}
	}
}

// misuse makes some requests ones that a router must mend or refuse.
func (r scheduler) misuse(s *step, body map[string]any) {
	switch r.IntN(24) {
	case 0: // hand-off keys of the client's own
		body["bootstrap_room"], body["bootstrap_host"], body["rid"] = 7, "10.0.0.1", "mine"
		body["kv_transfer_params"] = map[string]any{"do_remote_prefill": true, "remote_block_ids": nil}
	case 1:
		if s.refused == "" && s.path != "/generate" {
			body["n"], s.refused = 2, "unsupported_n"
		}
	}
}

// expected returns the texts that s is answered with by engines in order.
func (s step) expected() ([]string, error) { return sim.Expect(s.path, []byte(s.body)) }

// A reply is what a client had of its answer.
type reply struct {
	status int
	code   string // X-SMG-Error-Code
	body   string
	err    error // what cut it, or why there was none
	left   bool  // the client had left by then
}

func (r reply) String() string {
	return fmt.Sprintf("status %d, error code %q, cut by %v, client left %t\n%s", r.status, r.code, r.err, r.left, r.body)
}

// The outcomes of requests that are as they must be.
const (
	wholeAnswer  = "whole answers"
	toldInStream = "streams that ended with an error event"
	toldByStatus = "errors by status"
	clientLeft   = "clients that left"
	refusedEarly = "refusals before any worker was touched"
	turnedAway   = "requests that a stopped router took no notice of"
)

// judge says how s ended, or what was wrong with that.
func (s step) judge(r reply) (outcome string, err error) {
	switch {
	case r.left && r.err != nil && r.status != 200:
		return clientLeft, nil
	case r.status == 0 || r.err != nil && !r.left:
		return "", fmt.Errorf("the answer was cut")
	case s.refused != "":
		code, err := parseEnvelope(r.body)
		if r.status/100 == 2 || code != s.refused {
			err = fmt.Errorf("want the error %s", s.refused)
		}
		return refusedEarly, err
	case r.status != 200:
		return s.judgeError(r)
	}
	want, err := s.expected()
	if err != nil {
		return "", err
	}
	if s.stream {
		return s.judgeStream(r, want)
	}
	if r.left && r.err != nil {
		return clientLeft, nil
	}
	got, err := parseAnswer(s.path, r.body)
	if err == nil && strings.Join(got, "\x00") != strings.Join(want, "\x00") {
		err = fmt.Errorf("want %q", want)
	}
	return wholeAnswer, err
}

// judgeError judges an answer with the status of an error.
func (s step) judgeError(r reply) (outcome string, err error) {
	if r.code == "" {
		return "", fmt.Errorf("there is no X-SMG-Error-Code")
	}
	switch r.status {
	case 400, 429, 500, 502, 503, 504:
	default:
		return "", fmt.Errorf("the status is nobody's")
	}
	if r.status < 500 {
		return toldByStatus, parseRefusal(r.body)
	}
	_, err = parseEnvelope(r.body)
	return toldByStatus, err
}

// judgeStream judges a stream. Whatever cut it, what came before is right.
func (s step) judgeStream(r reply, want []string) (outcome string, err error) {
	h, err := parseStream(s.path, r.body)
	if err != nil {
		return "", err
	}
	for i, text := range h.inOrder(len(want)) {
		if !strings.HasPrefix(want[i], text) || h.done && want[i] != text {
			return "", fmt.Errorf("want %q", want)
		}
	}
	switch {
	case h.done:
		return wholeAnswer, nil
	case r.left && r.err != nil:
		return clientLeft, nil
	case h.half || h.code == "":
		return "", fmt.Errorf("it ended with neither [DONE] nor an error event")
	}
	return toldInStream, nil
}

package transfer

const nameVLLMNIXL = "vllm-nixl"

// VLLMNIXL is the dialect of vLLM engines with the NixlConnector, which pulls.
// Prefill answers where its blocks lie, decode gets that object verbatim and
// fetches them. The object is good for one time.
//
// The zero value is ready to use.
type VLLMNIXL struct{}

// pullParams ask prefill to keep its blocks and to say where they are.
const pullParams = `,"kv_transfer_params":{"do_remote_decode":true,"do_remote_prefill":false,` +
	`"remote_engine_id":null,"remote_block_ids":null,"remote_host":null,"remote_port":null}`

// Traits implements Dialect.
func (VLLMNIXL) Traits() Traits {
	return Traits{Name: nameVLLMNIXL, Order: PrefillFirst, Endpoints: [endpoints]bool{Chat: true, Completions: true}}
}

// Check implements Dialect. One answer of prefill describes the blocks of one
// prompt and can be used once.
func (VLLMNIXL) Check(req *Request) error {
	if !Carries(VLLMNIXL{}, req.endpoint) {
		return unsupported(req.endpoint.Path(), "", CodeEndpoint, nameVLLMNIXL)
	}
	if req.several != "" {
		return unsupported(req.several+">1", req.several, CodeN, nameVLLMNIXL)
	}
	if req.Batch() > 1 {
		return unsupported("a list of prompts", req.promptName(), CodeBatch, nameVLLMNIXL)
	}
	if req.value(keyPromptEmbeds) != nil {
		return unsupported("prompt_embeds", "prompt_embeds", CodeUnsupported, nameVLLMNIXL)
	}
	return req.checkPromptParts()
}

// Prefill implements Dialect.
func (VLLMNIXL) Prefill(req *Request, _ Attempt) (Leg, error) {
	var few [fewCuts]cut
	cuts, tail := req.oneToken(few[:0])
	return req.leg(cuts, []byte(tail+pullParams)), nil
}

// oneToken adds the cuts, and returns the tail, that make a leg generate one
// token, whichever names the client used for its limits, and answer it in one
// piece.
func (r *Request) oneToken(cuts []cut) (_ []cut, tail string) {
	cuts = r.quiet(cuts)
	for _, k := range [...]key{keyMinTokens, keyMinCompletionTokens} {
		if m := &r.known[k]; m.end != 0 {
			cuts = append(cuts, cutOf(m))
		}
	}
	if m := &r.known[keyMaxCompletionTokens]; m.end != 0 {
		cuts = append(cuts, setTo(m, "1"))
	}
	if m := &r.known[keyMaxTokens]; m.end != 0 {
		return append(cuts, setTo(m, "1")), ""
	}
	return cuts, `,"max_tokens":1`
}

// Decode implements Dialect.
func (VLLMNIXL) Decode(req *Request, _ Attempt, answer []byte) (Leg, error) {
	params, err := handoff(answer)
	if err != nil {
		return Leg{}, err
	}
	var few [fewCuts]cut
	l := req.leg(req.withoutPromptParts(few[:0]), withParams("", params))
	l.HandedOff = params != nil
	l.Merged = req.promptParts()
	return l, nil
}

// Release implements Releaser.
func (VLLMNIXL) Release(req *Request, _ Attempt, answer []byte) (Leg, error) {
	params, err := handoff(answer)
	if err != nil {
		return Leg{}, err
	}
	var few [fewCuts]cut
	cuts, tail := req.oneToken(few[:0])
	l := req.leg(req.withoutPromptParts(cuts), withParams(tail, params))
	l.HandedOff = params != nil
	return l, nil
}

// withParams adds prefill's kv_transfer_params to a tail, as they are.
func withParams(tail string, params []byte) []byte {
	const name = `,"kv_transfer_params":`
	if params == nil {
		return []byte(tail)
	}
	b := append(make([]byte, 0, len(tail)+len(name)+len(params)), tail...)
	return append(append(b, name...), params...)
}

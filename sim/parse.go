package sim

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
)

// parse decodes a body. It goes through its keys one by one, as they come,
// because encoding/json into a struct would hide which of them came twice. As
// in every Python engine, the last of several wins.
func parse(path string, body []byte) (*request, error) {
	r := &request{
		path: path, maxTokens: -1, maxCompletionTokens: -1, n: 1,
		promptLogprobs: -1, logprobStart: -1, temperature: 1,
	}
	p := parser{r: r}
	if err := eachKey(body, func(key string, dec *json.Decoder) error { return p.key(key, dec) }); err != nil {
		return nil, err
	}
	return r, p.finish()
}

// eachKey calls f for each key of an object; f decodes its value.
func eachKey(body []byte, f func(key string, dec *json.Decoder) error) error {
	dec := json.NewDecoder(bytes.NewReader(body))
	if t, err := dec.Token(); err != nil || t != json.Delim('{') {
		return errors.Join(errors.New("body is not a JSON object"), err)
	}
	for dec.More() {
		t, err := dec.Token()
		if err != nil {
			return err
		}
		if err := f(t.(string), dec); err != nil {
			return fmt.Errorf("%v: %w", t, err)
		}
	}
	if _, err := dec.Token(); err != nil {
		return err
	}
	if _, err := dec.Token(); !errors.Is(err, io.EOF) {
		return errors.New("body has something after its object")
	}
	return nil
}

// A parser is the state of one parse.
type parser struct {
	r    *request
	seen []string // hand-off keys

	prompt, text, ids       promptsValue
	messages                []message
	tools, choice, sampling json.RawMessage
}

// key decodes the value of one key.
func (p *parser) key(key string, dec *json.Decoder) error {
	if isHandOff(key) {
		for _, s := range p.seen {
			if s == key {
				p.r.duplicates = append(p.r.duplicates, key)
			}
		}
		p.seen = append(p.seen, key)
		return p.handOff(key, dec)
	}
	if v := p.prompts(key); v != nil {
		return dec.Decode(v)
	}
	return p.option(key, dec)
}

// isHandOff reports whether key is one that joins the two legs.
func isHandOff(key string) bool {
	return strings.HasPrefix(key, "bootstrap_") || key == "rid" || key == "kv_transfer_params"
}

func (p *parser) handOff(key string, dec *json.Decoder) error {
	r := p.r
	switch key {
	case "rid":
		return oneOrMany(dec, &r.rids)
	case "bootstrap_host":
		return oneOrMany(dec, &r.hosts)
	case "bootstrap_port":
		return oneOrMany(dec, &r.ports)
	case "bootstrap_room":
		return oneOrMany(dec, &r.rooms)
	case "kv_transfer_params":
		r.params = nil
		return dec.Decode(&r.params)
	}
	return skip(dec)
}

// prompts returns where to keep the value of a key that is part of the prompt.
func (p *parser) prompts(key string) any {
	switch key {
	case "prompt":
		return &p.prompt
	case "messages":
		return &p.messages
	case "text":
		return &p.text
	case "input_ids":
		return &p.ids
	case "tools":
		return &p.tools
	case "tool_choice":
		return &p.choice
	case "sampling_params":
		return &p.sampling
	}
	return nil
}

// option decodes the keys that shape the answer.
func (p *parser) option(key string, dec *json.Decoder) error {
	r := p.r
	switch key {
	case "model":
		return dec.Decode(&r.model)
	case "stream":
		return dec.Decode(&r.stream)
	case "stream_options":
		var o *struct {
			IncludeUsage bool `json:"include_usage"`
		}
		if err := dec.Decode(&o); err != nil || o == nil {
			return err
		}
		r.streamOptions, r.includeUsage = true, o.IncludeUsage
		return nil
	case "echo":
		return dec.Decode(&r.echo)
	case "cache_salt":
		var salt string
		if err := dec.Decode(&salt); err != nil || salt == "" {
			return err
		}
		p.r.saltWith(salt)
		return nil
	case "logprobs", "return_logprob":
		return p.logprobs(dec)
	case "top_logprobs", "top_logprobs_num":
		return dec.Decode(&r.topLogprobs)
	case "prompt_logprobs":
		return dec.Decode(&r.promptLogprobs)
	case "logprob_start_len":
		return dec.Decode(&r.logprobStart)
	}
	if v := r.samplingKey(key); v != nil {
		return dec.Decode(v)
	}
	return skip(dec)
}

// logprobs is true or false on chat and generate, a number on completions.
func (p *parser) logprobs(dec *json.Decoder) error {
	var raw json.RawMessage
	if err := dec.Decode(&raw); err != nil {
		return err
	}
	switch string(raw) {
	case "null", "false":
	case "true":
		p.r.logprobs = true
	default:
		p.r.logprobs = true
		return json.Unmarshal(raw, &p.r.topLogprobs)
	}
	return nil
}

// samplingKey returns where to keep the value of a sampling parameter.
func (r *request) samplingKey(key string) any {
	switch key {
	case "max_tokens", "max_new_tokens":
		return &r.maxTokens
	case "max_completion_tokens":
		return &r.maxCompletionTokens
	case "min_tokens", "min_new_tokens":
		return &r.minTokens
	case "ignore_eos":
		return &r.ignoreEOS
	case "n":
		return &r.n
	case "temperature":
		return &r.temperature
	}
	return nil
}

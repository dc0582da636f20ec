package sim

import (
	"bytes"
	"encoding/json"
	"errors"
	"strings"
	"unicode/utf8"
)

// finish puts together what needs more than one key.
func (p *parser) finish() error {
	if len(p.sampling) > 0 && string(p.sampling) != "null" {
		err := eachKey(p.sampling, func(key string, dec *json.Decoder) error {
			if v := p.r.samplingKey(key); v != nil {
				return dec.Decode(v)
			}
			return skip(dec)
		})
		if err != nil {
			return err
		}
	}
	if err := p.finishPrompt(); err != nil {
		return err
	}
	for i := range p.r.prompts {
		p.r.prompts[i].seed = p.r.salt
	}
	return p.finishTool()
}

func (p *parser) finishPrompt() error {
	switch p.r.path {
	case pathChat:
		if p.messages == nil {
			return errors.New("messages is missing")
		}
		p.r.prompts = []prompt{textPrompt(chatText(p.tools, p.messages))}
		return nil
	case pathGenerate:
		if p.text.list != nil {
			return p.take(p.text)
		}
		return p.take(p.ids)
	}
	return p.take(p.prompt)
}

func (p *parser) take(v promptsValue) error {
	if v.list == nil {
		return errors.New("prompt is missing")
	}
	p.r.prompts, p.r.batch = v.list, v.batch
	return nil
}

// promptsValue is a text, token ids, or a list of one of them.
type promptsValue struct {
	list  []prompt
	batch bool
}

// UnmarshalJSON implements json.Unmarshaler.
func (v *promptsValue) UnmarshalJSON(raw []byte) error {
	*v = promptsValue{}
	if string(raw) == "null" {
		return nil
	}
	if raw[0] == '"' {
		text, err := unquote(raw)
		v.list = []prompt{textPrompt(text)}
		return err
	}
	var ids []uint32
	if json.Unmarshal(raw, &ids) == nil {
		v.list = []prompt{{tokens: ids}}
		return nil
	}
	v.batch = true
	var texts []string
	if json.Unmarshal(raw, &texts) == nil {
		for _, text := range texts {
			v.list = append(v.list, textPrompt(text))
		}
		return nil
	}
	var lists [][]uint32
	if err := json.Unmarshal(raw, &lists); err != nil {
		return errors.New("prompt is neither a text nor token ids nor a list of them")
	}
	for _, ids := range lists {
		v.list = append(v.list, prompt{tokens: ids})
	}
	return nil
}

// A message is one of a chat.
type message struct {
	Role      string          `json:"role"`
	Content   content         `json:"content"`
	ToolCalls json.RawMessage `json:"tool_calls"`
}

// content is the text of a message, or its parts as they came.
type content string

// UnmarshalJSON implements json.Unmarshaler.
func (c *content) UnmarshalJSON(raw []byte) error {
	if raw[0] != '"' {
		*c = content(raw)
		return nil
	}
	text, err := unquote(raw)
	*c = content(text)
	return err
}

// unquote decodes a string that encoding/json has found to be one. Long texts
// are mostly without escapes, and then they are what is between the quotes.
func unquote(raw []byte) (string, error) {
	inner := raw[1 : len(raw)-1]
	if bytes.IndexByte(inner, '\\') < 0 && utf8.Valid(inner) {
		return string(inner), nil
	}
	var text string
	err := json.Unmarshal(raw, &text)
	return text, err
}

// chatText renders messages as a chat template does, tools first.
func chatText(tools json.RawMessage, messages []message) string {
	var b strings.Builder
	if len(tools) > 0 && string(tools) != "null" {
		b.WriteString("<|im_start|>tools\n")
		b.Write(tools)
		b.WriteString("<|im_end|>\n")
	}
	for _, m := range messages {
		b.WriteString("<|im_start|>")
		b.WriteString(m.Role)
		b.WriteByte('\n')
		b.WriteString(string(m.Content))
		b.Write(m.ToolCalls)
		b.WriteString("<|im_end|>\n")
	}
	b.WriteString("<|im_start|>assistant\n")
	return b.String()
}

// finishTool finds the tool that the answer has to call.
func (p *parser) finishTool() error {
	if len(p.tools) == 0 || len(p.choice) == 0 || p.r.path != pathChat {
		return nil
	}
	var list []struct {
		Function struct {
			Name       string `json:"name"`
			Parameters struct {
				Properties json.RawMessage `json:"properties"`
			} `json:"parameters"`
		} `json:"function"`
	}
	if err := json.Unmarshal(p.tools, &list); err != nil {
		return err
	}
	var want string
	if p.choice[0] == '{' {
		var choice struct {
			Function struct {
				Name string `json:"name"`
			} `json:"function"`
		}
		if err := json.Unmarshal(p.choice, &choice); err != nil {
			return err
		}
		want = choice.Function.Name
	} else if string(p.choice) != `"required"` {
		return nil
	}
	for _, t := range list {
		if want != "" && t.Function.Name != want {
			continue
		}
		p.r.tool = &tool{name: t.Function.Name, argument: firstKey(t.Function.Parameters.Properties), named: want != ""}
		return nil
	}
	return errors.New("tool_choice names no tool")
}

// errStop ends eachKey early.
var errStop = errors.New("stop")

// firstKey returns the first key of an object, "value" if it has none.
func firstKey(object json.RawMessage) string {
	first := "value"
	if len(object) == 0 {
		return first
	}
	_ = eachKey(object, func(key string, _ *json.Decoder) error {
		first = key
		return errStop
	})
	return first
}

// saltWith keeps the cache entries of the request apart from others'.
func (r *request) saltWith(salt string) { r.salt = textPrompt(salt).identity() | 1 }

// oneOrMany decodes a value or a list of values.
func oneOrMany[T any](dec *json.Decoder, list *[]T) error {
	var raw json.RawMessage
	if err := dec.Decode(&raw); err != nil {
		return err
	}
	*list = nil
	if string(raw) == "null" {
		return nil
	}
	if raw[0] == '[' {
		return json.Unmarshal(raw, list)
	}
	*list = make([]T, 1)
	return json.Unmarshal(raw, &(*list)[0])
}

// skip passes over a value.
func skip(dec *json.Decoder) error {
	var raw json.RawMessage
	return dec.Decode(&raw)
}

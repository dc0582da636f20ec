package enginetest

import (
	"encoding/json"
	"fmt"
	"math"
	"net/http"
	"slices"
	"strings"
	"testing"
)

const (
	completions = "/v1/completions"
	chat        = "/v1/chat/completions"
	generate    = "/generate"
)

// story returns a prompt of about n tokens that begins like no other one, so
// that no prefix cache has it.
func story(number, n int) string {
	const words = "Alice went to the old market on a cold Monday morning to buy bread, apples and a small lamp. " +
		"The baker told her a long story about the harbour, the storm of last winter, and the ship that never came back. "
	text := fmt.Sprintf("%d. ", number) + strings.Repeat(words, n*4/len(words)+1)
	return text[:min(len(text), max(1, n*9/2))]
}

func completion(prompt any, tokens int) object {
	return object{"model": model, "prompt": prompt, "max_tokens": tokens, "temperature": 0}
}

func conversation(text string, tokens int) object {
	return object{"model": model, "messages": []object{{"role": "user", "content": text}}, "max_tokens": tokens, "temperature": 0}
}

func streamed(body object) object {
	return with(body, object{"stream": true, "stream_options": object{"include_usage": true}})
}

// answers asks in every way that there is, and compares with one engine alone.
func (s *suite) answers() {
	s.step("chat and completions, JSON and streamed, are what one says", s.everyWay)
	s.step("50 prompts of 1 to 1500 tokens are what one says", s.fifty)
	s.step("logprobs and tools come through", s.extras)
	if s.dialect == "sglang" {
		s.step("batches and /generate are what one says", s.batches)
	}
}

func (s *suite) everyWay(t *testing.T) string {
	n := 0
	for path, body := range map[string]object{
		completions: completion("The capital of France is", 16),
		chat:        conversation("What is the capital of France?", 16),
	} {
		want := s.alone(t, path, body)
		once := say(t, s.ask(path, body))
		stream := say(t, s.ask(path, streamed(body)))
		for how, got := range map[string]answer{"JSON": once, "stream": stream} {
			n++
			if !slices.Equal(got.texts, want) || want[0] == "" {
				t.Errorf("%s %s: %q, want %q", path, how, got.texts, want)
			}
			if got.finish != "stop" && got.finish != "length" {
				t.Errorf("%s %s: it finished by %q", path, how, got.finish)
			}
			if got.prompt == 0 || got.tokens == 0 || got.prompt != once.prompt || got.tokens != once.tokens {
				t.Errorf("%s %s: usage is %d+%d, in JSON %d+%d", path, how, got.prompt, got.tokens, once.prompt, once.tokens)
			}
		}
		if stream.parts < 2 {
			t.Errorf("%s: the stream had %d parts with text", path, stream.parts)
		}
	}
	return fmt.Sprintf("%d answers", n)
}

// fifty asks for prompts of all lengths, each first of the pair, so that what
// one engine alone leaves in its cache helps nobody.
func (s *suite) fifty(t *testing.T) string {
	tokens, wrong := 0, 0
	for i := range 50 {
		length := 1 + 1499*math.Pow(float64(i)/49, 5) // most are short: long ones take seconds here
		body := completion(story(i, int(length)), 4)
		got := say(t, s.ask(completions, body))
		want := s.alone(t, completions, body)
		tokens += got.prompt
		if !slices.Equal(got.texts, want) {
			wrong++
			t.Errorf("prompt of %d tokens: %q, want %q", got.prompt, got.texts, want)
		}
	}
	return fmt.Sprintf("%d of 50 equal, %d tokens of prompts", 50-wrong, tokens)
}

func (s *suite) extras(t *testing.T) string {
	var logprobs struct {
		Choices []struct {
			Logprobs struct {
				Content []struct {
					Token   string
					Logprob *float64
				}
			}
		}
	}
	r := s.ask(chat, with(conversation("Name a colour.", 4), object{"logprobs": true, "top_logprobs": 2}))
	a := say(t, r)
	if err := json.Unmarshal([]byte(r.body), &logprobs); err != nil {
		t.Fatal(err)
	}
	if got := len(logprobs.Choices[0].Logprobs.Content); s.real && (got != a.tokens || logprobs.Choices[0].Logprobs.Content[0].Logprob == nil) {
		t.Errorf("%d logprobs for %d tokens", got, a.tokens)
	}
	tools := object{"tools": []object{{"type": "function", "function": object{
		"name": "weather", "description": "of a city", "parameters": object{"type": "object", "properties": object{"city": object{"type": "string"}}},
	}}}}
	body := with(conversation("How is the weather in Paris?", 8), tools)
	if got, want := say(t, s.ask(chat, body)), s.alone(t, chat, body); !slices.Equal(got.texts, want) {
		t.Errorf("with tools: %q, want %q", got.texts, want)
	}
	figures := fmt.Sprintf("%d logprobs; tools taken", a.tokens)
	if s.dialect == "vllm" { // our SGLang has no grammar to force a call by
		forced := with(body, object{"max_tokens": 64, "tool_choice": object{"type": "function", "function": object{"name": "weather"}}})
		for _, b := range []object{forced, streamed(forced)} {
			if r := s.ask(chat, b); r.status != http.StatusOK || !strings.Contains(r.body, `"name":"weather"`) {
				t.Errorf("a call that was forced: %v", r)
			}
		}
		figures += ", a call forced, in JSON and streamed"
	}
	return figures
}

func (s *suite) batches(t *testing.T) string {
	batch := completion([]string{"The capital of France is", "Two and two are", "The sea is"}, 6)
	got, want := say(t, s.ask(completions, batch)).texts, s.alone(t, completions, batch)
	if !slices.Equal(got, want) || len(got) != 3 {
		t.Errorf("batch: %q, want %q", got, want)
	}
	for _, text := range []any{"The capital of Spain is", []string{"The moon is", "Once upon a time"}} {
		body := object{"text": text, "sampling_params": object{"temperature": 0, "max_new_tokens": 6}}
		got, want := say(t, s.ask(generate, body)).texts, s.alone(t, generate, body)
		if !slices.Equal(got, want) || len(got) == 0 {
			t.Errorf("generate of %v: %q, want %q", text, got, want)
		}
	}
	body := object{"text": "The capital of Italy is", "sampling_params": object{"temperature": 0, "max_new_tokens": 6}}
	stream := say(t, s.ask(generate, with(body, object{"stream": true}))).texts
	if want := s.alone(t, generate, body); !slices.Equal(stream, want) {
		t.Errorf("generate, streamed: %q, want %q", stream, want)
	}
	return "a batch of 3, /generate of 1, of 2, and streamed"
}

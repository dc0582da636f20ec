package sim

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
	"strings"
)

// tokensRequest is a body of /tokenize or /detokenize.
type tokensRequest struct {
	Model    string          `json:"model"`
	Prompt   json.RawMessage `json:"prompt"` // SGLang also takes a list of them
	Messages []message       `json:"messages"`
	Tools    json.RawMessage `json:"tools"`
	Tokens   *[]uint32       `json:"tokens"`
}

// serveTokens serves /tokenize and /detokenize. The two engines name them, and
// what they answer, in different ways.
func (e *Engine) serveTokens(w http.ResponseWriter, r *http.Request) {
	if r.Method != http.MethodPost {
		w.Header().Set("Allow", http.MethodPost)
		answerJSON(w, http.StatusMethodNotAllowed, []byte(`{"detail":"Method Not Allowed"}`))
		return
	}
	c := &call{e: e, w: w}
	refuse := c.vllmRefuse
	if e.cfg.Dialect == SGLang {
		refuse = c.sglangRefuse
	}
	body, err := e.readTokens(r)
	if err != nil {
		refuse(err)
		return
	}
	if strings.HasSuffix(r.URL.Path, "/detokenize") {
		e.detokenize(w, *body.Tokens)
		return
	}
	if e.tokenizeBatch(w, body) {
		return
	}
	e.tokenize(w, body)
}

// readTokens reads a body, and refuses what the engine refuses.
func (e *Engine) readTokens(r *http.Request) (*tokensRequest, error) {
	body := &tokensRequest{}
	if err := json.NewDecoder(r.Body).Decode(body); err != nil {
		return nil, badTokens("Invalid request")
	}
	// SGLang does not look at the model.
	if e.cfg.Dialect == VLLMNixl && body.Model != "" && body.Model != e.cfg.Model {
		return nil, &failure{http.StatusNotFound, fmt.Sprintf("The model `%s` does not exist.", body.Model)}
	}
	chat := e.cfg.Dialect == VLLMNixl && len(body.Messages) > 0
	switch {
	case strings.HasSuffix(r.URL.Path, "/detokenize"):
		if body.Tokens == nil {
			return nil, badTokens("Field required: tokens")
		}
	case body.Prompt == nil && !chat:
		return nil, badTokens("Field required: prompt")
	case chat:
		body.Prompt = appendJSON(nil, chatText(body.Tools, body.Messages))
	}
	return body, nil
}

func badTokens(message string) error { return &refusal{sglang: message, vllm: message} }

// tokenize answers for one prompt.
func (e *Engine) tokenize(w http.ResponseWriter, body *tokensRequest) {
	var text string
	_ = json.Unmarshal(body.Prompt, &text)
	tokens := textPrompt(text).tokens
	list, _ := json.Marshal(tokens)
	if e.cfg.Dialect == SGLang {
		e.sglangTokens(w, list, strconv.Itoa(len(tokens)))
		return
	}
	b := appendField([]byte(`{"count":`), "", len(tokens))
	b = appendField(b, `,"max_model_len":`, e.cfg.ContextLength)
	b = append(append(b, `,"tokens":`...), list...)
	answerJSON(w, http.StatusOK, append(b, `,"token_strs":null}`...))
}

// tokenizeBatch answers for a list of prompts, as only SGLang does.
func (e *Engine) tokenizeBatch(w http.ResponseWriter, body *tokensRequest) bool {
	var texts []string
	if e.cfg.Dialect != SGLang || json.Unmarshal(body.Prompt, &texts) != nil {
		return false
	}
	lists, counts := [][]uint32{}, []int{}
	for _, text := range texts {
		tokens := textPrompt(text).tokens
		lists, counts = append(lists, tokens), append(counts, len(tokens))
	}
	list, _ := json.Marshal(lists)
	count, _ := json.Marshal(counts)
	e.sglangTokens(w, list, string(count))
	return true
}

func (e *Engine) sglangTokens(w http.ResponseWriter, tokens []byte, count string) {
	b := append([]byte(`{"tokens":`), tokens...)
	b = append(b, `,"count":`+count...)
	answerJSON(w, http.StatusOK, append(appendField(b, `,"max_model_len":`, e.cfg.ContextLength), '}'))
}

// detokenize answers with the text of tokens.
func (e *Engine) detokenize(w http.ResponseWriter, tokens []uint32) {
	text := make([]byte, 0, bytesPerToken*len(tokens))
	for _, t := range tokens {
		text = append(text, byte(t), byte(t>>8), byte(t>>16), byte(t>>24))
	}
	key := `{"prompt":`
	if e.cfg.Dialect == SGLang {
		key = `{"text":`
	}
	answerJSON(w, http.StatusOK, append(appendJSON([]byte(key), strings.TrimRight(string(text), "\x00")), '}'))
}

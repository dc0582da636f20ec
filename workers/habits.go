package workers

// habits are what requests for one model have been like: how many bytes of
// prompt make a token, and how long answers are.
type habits struct {
	lengths       lengths
	bytes, tokens float64 // of prompts, the old ones counting less
}

const (
	// promptMemory is what the weight of a prompt falls by with the next one.
	promptMemory = 1 - 1.0/64

	// Until a prompt was seen, a token is taken to be three bytes: real ones
	// are longer in nearly every text, and too many tokens are the safe side.
	firstBytes  = 3
	firstTokens = 1
)

func newHabits() *habits {
	h := &habits{bytes: firstBytes, tokens: firstTokens}
	h.lengths.dirty = true
	h.lengths.refresh()
	return h
}

// promptIs notes how many tokens a prompt of so many bytes had.
func (h *habits) promptIs(bytes int, tokens float64) {
	if bytes <= 0 || tokens <= 0 {
		return
	}
	h.bytes = h.bytes*promptMemory + float64(bytes)
	h.tokens = h.tokens*promptMemory + tokens
}

// promptTokens returns how many tokens a prompt of so many bytes is likely to
// have.
func (h *habits) promptTokens(bytes int) float64 { return float64(bytes) * h.tokens / h.bytes }

package bench

import (
	"strings"
	"testing"
)

func TestPrompt(t *testing.T) {
	const block = BlockTokens * BytesPerToken
	short := Request{InputLength: 700, HashIDs: []int64{4, 5}}
	long := Request{InputLength: 1536, HashIDs: []int64{4, 5, 6}}
	other := Request{InputLength: 700, HashIDs: []int64{4, 7}}
	t.Run("has the length that the trace says", func(t *testing.T) {
		for _, r := range []Request{short, long, other, {InputLength: 1, HashIDs: []int64{0}}} {
			if got := len(r.Prompt()); got != r.InputLength*BytesPerToken {
				t.Errorf("a prompt of %d tokens has %d bytes", r.InputLength, got)
			}
		}
	})
	t.Run("equal ids give equal text, also where a prompt ends inside the block", func(t *testing.T) {
		if !strings.HasPrefix(long.Prompt(), short.Prompt()) {
			t.Error("a prompt with the same ids does not begin with the shorter one")
		}
	})
	t.Run("different ids give different text", func(t *testing.T) {
		a, b := short.Prompt(), other.Prompt()
		if a[:block] != b[:block] {
			t.Error("the first blocks differ, whose ids are the same")
		}
		if a[block:block+16] == b[block:block+16] {
			t.Error("the second blocks begin with the same words, whose ids differ")
		}
	})
	t.Run("no block of the trace begins as another one", func(t *testing.T) {
		reqs, err := Conversation()
		if err != nil {
			t.Fatal(err)
		}
		beginnings := map[string]int64{}
		for _, r := range reqs {
			for _, id := range r.HashIDs {
				head := Text(id, 16)
				if other, ok := beginnings[head]; ok && other != id {
					t.Fatalf("blocks %d and %d both begin with %q", id, other, head)
				}
				beginnings[head] = id
			}
		}
	})
	t.Run("JSON has nothing to escape in it", func(t *testing.T) {
		if i := strings.IndexFunc(long.Prompt(), func(r rune) bool { return r != ' ' && (r < 'a' || r > 'z') }); i >= 0 {
			t.Errorf("%q", long.Prompt()[i:])
		}
	})
}

// The text of an id is part of recorded figures: it must not change.
func TestPromptIsStable(t *testing.T) {
	if got, want := Text(1, 8), "curaba fupi fu bugure jo wihebu "; got != want {
		t.Errorf("Text(1, 8) = %q, want %q", got, want)
	}
}

func BenchmarkPrompt(b *testing.B) {
	r := Request{InputLength: 16 * BlockTokens, HashIDs: make([]int64, 16)}
	b.SetBytes(int64(len(r.Prompt())))
	for b.Loop() {
		_ = r.Prompt()
	}
}

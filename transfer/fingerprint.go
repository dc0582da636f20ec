package transfer

import (
	"bytes"
	"encoding/binary"
	"hash/crc32"
	"math/bits"
)

// maxPieces is how many pieces of a prompt are told apart. What is behind them is
// one piece as it is spelt, so that a body of nothing but ones does not take many
// times its own memory. A conversation of thousands of turns has no more.
const maxPieces = 16 << 10

// Prompt appends to dst what the prompt is made from, in the order in which
// engines put it: tools, then messages in their order, or prompt, text or token
// ids. It is for fingerprints: two prompts of which one begins with the other
// have pieces that do so too, whatever else is in the bodies and behind them.
//
//   - Of messages there are only the values, at any depth: roles, contents,
//     parts. So neither whitespace nor the names of keys nor null matter. Texts
//     are as they are spelt: one client's \u00e4 is not another's ä, because
//     to undo escapes would be to copy the prompt.
//   - A system message that is not the first stays where it is, as most
//     templates leave it there: what is before it can be shared in any case.
//   - Tools and token ids are as they are spelt, whitespace and all: they have
//     too many tokens of JSON to go over them again. One client spells them in
//     one way.
//   - Images and sound that are in the body are condensed, see condensed. Those
//     that are elsewhere stand for themselves by their URL.
//   - The prompts of a batch follow one another as if they were one prompt. It
//     begins as the first of them does, and is as much work as all.
//
// The pieces belong to the body, but for what is condensed.
func (r *Request) Prompt(dst [][]byte) [][]byte {
	if r.endpoint == Chat {
		if ids := r.value(keyInputIDs); ids != nil {
			return appendPrompts(dst, ids)
		}
		if tools := r.value(keyTools); tools != nil {
			dst = append(dst, tools)
		}
		return r.appendMessages(dst)
	}
	for _, k := range [...]key{keyPrompt, keyText, keyInputIDs, keyInputEmbeds, keyPromptEmbeds} {
		dst = appendPrompts(dst, r.value(k))
	}
	return dst
}

// Length returns how many bytes pieces have.
func Length(pieces [][]byte) int {
	n := 0
	for _, p := range pieces {
		n += len(p)
	}
	return n
}

// SeedPieces is how many pieces Seed returns.
const SeedPieces = 11

// Seed appends to dst what keeps the KV blocks of equal prompts apart: cache
// salts, LoRA adapters, media that stand outside of the prompt, and what
// templates write in front of the messages. Each has its place, so that two keys
// with one value do not look alike. A key that is absent is nil.
//
// What templates do with chat_template_kwargs and reasoning_effort is theirs:
// some write the effort into the first line (gpt-oss), some think or not only at
// the end (Qwen3), where blocks could be shared that are not believed to be.
func (r *Request) Seed(dst [][]byte) [][]byte {
	for _, k := range [SeedPieces]key{
		keyCacheSalt, keyExtraKey, keyLoraPath, keyImageData, keyVideoData, keyAudioData,
		keyChatTemplate, keyTemplateArgs, keyDocuments, keyReasoningEffort, keyMediaArgs,
	} {
		dst = append(dst, r.value(k))
	}
	return dst
}

// appendPrompts appends a text, token ids, or a list of some of them, without
// the quotes and brackets around them: a prompt that goes on has none where this
// one ends.
func appendPrompts(dst [][]byte, v []byte) [][]byte {
	if len(v) == 0 {
		return dst
	}
	if v[0] == '"' {
		return append(dst, v[1:len(v)-1])
	}
	list := bytes.TrimSpace(v[1 : len(v)-1])
	if len(list) == 0 || isNumber(list[0]) {
		return append(dst, list)
	}
	for i := 0; i < len(list); {
		if len(dst) >= maxPieces {
			return append(dst, list[i:])
		}
		switch list[i] {
		case '"':
			end := stringEnd(list, i)
			dst = append(dst, list[i+1:end-1])
			i = end
		case '[':
			end := listEnd(list, i)
			dst = append(dst, bytes.TrimSpace(list[i+1:end-1]))
			i = end
		default:
			i++
		}
	}
	return dst
}

// appendMessages appends the values in the list of messages.
func (r *Request) appendMessages(dst [][]byte) [][]byte {
	if r.value(keyMessages) == nil {
		return dst
	}
	var name []byte // of the last key, in its quotes
	long := r.long.at[:r.long.n]
	v := r.body[:r.known[keyMessages].end]
	for i := int(r.known[keyMessages].start); i < len(v); {
		if len(dst) >= maxPieces {
			return append(dst, v[i:len(v)-1])
		}
		switch c := v[i]; {
		case c == '"':
			var end int
			end, long = r.longEnd(i, long)
			if end == 0 {
				end = stringEnd(v, i)
			}
			if next := nextAfter(v, end); v[next] == ':' {
				name = v[i:end]
				i = nextAfter(v, next+1)
				if string(name) == `"cache_control"` { // moves on with each turn, and no engine reads it
					i = valueEnd(v, i)
				}
				continue
			}
			dst = append(dst, condensed(name, v[i:end]))
			i = end
		case c == 'n':
			i += len("null")
		case c == 't', c == 'f', isNumber(c):
			end := scalarEnd(v, i)
			dst = append(dst, v[i:end])
			i = end
		default: // a bracket, a comma, whitespace
			i++
		}
	}
	return dst
}

// longEnd returns the offset behind the string that begins at i, if it is one of
// the long ones, and those of them which come later; else 0.
func (r *Request) longEnd(i int, long []span) (end int, later []span) {
	for len(long) > 0 && int(long[0].start) < i {
		long = long[1:]
	}
	if len(long) > 0 && int(long[0].start) == i {
		return int(long[0].end), long[1:]
	}
	return 0, long
}

// The functions below go over values that have been scanned, and are whole.

// nextAfter returns where whitespace ends.
func nextAfter(v []byte, i int) int {
	for i < len(v) && v[i] <= ' ' {
		i++
	}
	return i
}

// stringEnd returns the offset behind the string that begins at i. Most have no
// quote in them, and to find the next quote takes a fraction of a scan's time.
func stringEnd(v []byte, i int) int {
	i++
	if end := i + bytes.IndexByte(v[i:], '"'); v[end-1] != '\\' {
		return end + 1
	}
	for len(v)-i >= window {
		n, special, slash, _ := skipPlain(v[i:])
		i += n
		if special == 0 {
			break
		}
		escaped := escapedBy(slash)
		if quotes := special &^ slash &^ escaped; quotes != 0 {
			return i + bits.TrailingZeros64(quotes) + 1
		}
		i += window - int(slash&^escaped>>(window-1)) // an escape may begin with the window's last byte
	}
	for ; v[i] != '"'; i++ {
		if v[i] == '\\' {
			i++
		}
	}
	return i + 1
}

// scalarEnd returns the offset behind a number or word that begins at i.
func scalarEnd(v []byte, i int) int {
	for i < len(v) && v[i] > ' ' && v[i] != ',' && v[i] != ']' && v[i] != '}' {
		i++
	}
	return i
}

// listEnd returns the offset behind the list that begins at i.
func listEnd(v []byte, i int) int {
	end := i + bytes.IndexByte(v[i:], ']') + 1
	if bytes.IndexByte(v[i+1:end], '[') < 0 && bytes.IndexByte(v[i:end], '"') < 0 {
		return end
	}
	return valueEnd(v, i)
}

// valueEnd returns the offset behind any value that begins at i.
func valueEnd(v []byte, i int) int {
	for depth := 0; ; {
		switch v[i] {
		case '"':
			i = stringEnd(v, i)
		case '{', '[':
			depth++
			i++
			continue
		case '}', ']':
			depth--
			i++
		case ',', ':', ' ', '\n', '\r', '\t':
			i++
			continue
		default:
			i = scalarEnd(v, i)
		}
		if depth == 0 {
			return i
		}
	}
}

const (
	// condensedFrom is the length from which media are condensed.
	condensedFrom = 1 << 10

	// condensedBy is how much shorter they become. An image of some 250 kB in
	// base64 makes a thousand tokens, as four kB of text do; what its bytes
	// would be taken for are sixty thousand.
	condensedBy = 64

	condensedMost = 64 << 10
)

// condensed returns the string value of a key as it counts in a fingerprint: of
// an image or a sound, which come as a URL with the data in it or under the key
// data, a checksum, repeated to the length of a text that is as much work.
func condensed(key, value []byte) []byte {
	if len(value) < condensedFrom || string(key) != `"data"` && !bytes.HasPrefix(value, []byte(`"data:`)) {
		return value
	}
	sum := crc32.Checksum(value, crc32.MakeTable(crc32.Castagnoli))
	var digest [8]byte
	binary.LittleEndian.PutUint32(digest[:], sum)
	binary.LittleEndian.PutUint32(digest[4:], uint32(len(value)))
	return bytes.Repeat(digest[:], min(len(value)/condensedBy, condensedMost)/len(digest))
}

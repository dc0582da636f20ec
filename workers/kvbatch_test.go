package workers

import (
	"encoding/hex"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/tinylib/msgp/msgp"
)

// tellAll returns what is told of a batch, a line for each event.
func tellAll(t testing.TB, payload []byte) ([]string, KVTally, error) {
	t.Helper()
	var lines []string
	var r KVReader
	n, err := r.Read(payload, func(e *KVEvent) {
		lines = append(lines, fmt.Sprintf("%d %v parent %d %v size %d tokens %v extra %v", e.Kind, e.Hashes, e.Parent, e.Root, e.Size, e.Tokens, e.Extra))
	})
	return lines, n, err
}

// packed is v as msgpack: numbers, strings, bytes, nil, lists, and maps as
// lists of keys and values.
type pairs []any

func packed(b []byte, v any) []byte {
	switch v := v.(type) {
	case []any:
		b = msgp.AppendArrayHeader(b, uint32(len(v)))
		for _, x := range v {
			b = packed(b, x)
		}
		return b
	case pairs:
		b = msgp.AppendMapHeader(b, uint32(len(v)/2))
		for _, x := range v {
			b = packed(b, x)
		}
		return b
	case nil:
		return msgp.AppendNil(b)
	case int:
		return msgp.AppendInt(b, v)
	case uint64:
		return msgp.AppendUint64(b, v)
	case string:
		return msgp.AppendString(b, v)
	case []byte:
		return msgp.AppendBytes(b, v)
	case float64:
		return msgp.AppendFloat64(b, v)
	}
	panic(fmt.Sprintf("%T", v))
}

func batchOf(events ...any) []byte { return packed(nil, []any{1789095808.8, events, 0}) }

type list = []any

func TestKVBatch(t *testing.T) {
	stored := func(more ...any) pairs {
		return append(pairs{
			"type", "BlockStored", "block_hashes", list{1, uint64(1 << 63)}, "parent_block_hash", nil, "token_ids", list{7, 8, 9, 10}, "block_size", 2,
		}, more...)
	}
	const plain = "0 [1 9223372036854775808] parent 0 true size 2 tokens [7 8 9 10] extra []"
	for _, tt := range []struct {
		name      string
		event     any
		want      string // empty: nothing is told
		malformed bool
	}{
		{"vLLM's map", stored("medium", "GPU", "group_idx", 0, "kv_cache_spec_kind", "full_attention", "extra_keys", list{nil, nil}), plain, false},
		{"a field of tomorrow", stored("new", pairs{"a", list{1}}), plain, false},
		{"vLLM's array", list{"BlockStored", list{1}, 5, list{7, 8}, 2, nil, "GPU", nil, nil, 0, "full_attention", nil, "LOCAL", nil, "session"}, "0 [1] parent 5 false size 2 tokens [7 8] extra []", false},
		{"an array that ends early", list{"BlockStored", list{1}, nil, list{7, 8}, 2}, "0 [1] parent 0 true size 2 tokens [7 8] extra []", false},
		{"an array with more than is known", list{"BlockRemoved", list{1}, "GPU", 0, nil, nil, "x", list{}}, "1 [1] parent 0 false size 0 tokens [] extra []", false},
		{"SGLang's negative hashes", list{"BlockRemoved", list{-1, -2}}, "1 [18446744073709551615 18446744073709551614] parent 0 false size 0 tokens [] extra []", false},
		{"hashes of bytes", list{"BlockRemoved", list{[]byte{1, 2, 3, 4, 5, 6, 7, 8, 9}, []byte{1}, "a"}}, "1 [144964032628459529 1 97] parent 0 false size 0 tokens [] extra []", false},
		{"EAGLE's pairs of tokens", list{"BlockStored", list{1}, nil, list{list{7, 8}, list{8, 9}}, 2, nil}, "0 [1] parent 0 true size 2 tokens [7 8] extra []", false},
		{"tokens that do not fit", list{"BlockStored", list{1}, nil, list{7}, 2, nil}, "0 [1] parent 0 true size 2 tokens [] extra []", false},
		{"cleared", pairs{"type", "AllBlocksCleared"}, "2 [] parent 0 false size 0 tokens [] extra []", false},
		{"cleared, as an array", list{"AllBlocksCleared"}, "2 [] parent 0 false size 0 tokens [] extra []", false},

		{"on the CPU", stored("medium", "CPU_PINNED"), "", false},
		{"elsewhere", stored("locality", "REMOTE"), "", false},
		{"of another group", stored("group_idx", 1), "", false},
		{"of a sliding window", stored("kv_cache_spec_kind", "sliding_window", "kv_cache_spec_sliding_window", 128), "", false},
		{"moved out", list{"BlockStored", list{1}, nil, list{}, 0, nil}, "", false},
		{"no blocks", list{"BlockRemoved", list{}}, "", false},
		{"a kind of tomorrow", pairs{"type", "BlockMoved", "x", 1}, "", false},

		{"no type", pairs{"block_hashes", list{1}}, "", true},
		{"a type that is no text", list{5}, "", true},
		{"an empty array", list{}, "", true},
		{"a number", 5, "", true},
		{"hashes that are none", list{"BlockRemoved", list{1.5}}, "", true},
		{"hashes that are no list", list{"BlockRemoved", 1}, "", true},
		{"a size below 0", list{"BlockStored", list{1}, nil, list{}, -1}, "", true},
		{"a size beyond all", list{"BlockStored", list{1}, nil, list{}, 1 << 40}, "", true},
		{"tokens that are none", list{"BlockStored", list{1}, nil, list{"a", "b"}, 2}, "", true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			lines, n, err := tellAll(t, batchOf(tt.event, list{"AllBlocksCleared"}))
			if err != nil {
				t.Fatal(err)
			}
			want := []string{tt.want, "2 [] parent 0 false size 0 tokens [] extra []"}
			if tt.want == "" {
				want = want[1:]
			}
			if !slices.Equal(lines, want) || n.Malformed > 0 != tt.malformed || (tt.want == "" && !tt.malformed) != (n.Ignored > 0) {
				t.Errorf("told\n  %s\nwith %+v, want\n  %s", strings.Join(lines, "\n  "), n, strings.Join(want, "\n  "))
			}
		})
	}
}

func TestKVBatchThatIsNone(t *testing.T) {
	for name, payload := range map[string][]byte{
		"nothing":            nil,
		"no msgpack":         {0xc1},
		"no array":           packed(nil, 5),
		"no events":          packed(nil, list{1.5}),
		"events of no array": packed(nil, list{1.5, "x"}),
		"cut off":            batchOf(list{"BlockRemoved", list{1, 2, 3}})[:20],
		"a list of 2^32":     {0x92, 1, 0xdd, 0xff, 0xff, 0xff, 0xff, 0x90},
		"nested without end": []byte("\x92\x01" + strings.Repeat("\x91", 1<<20)),
	} {
		if lines, _, err := tellAll(t, payload); err == nil || len(lines) > 0 {
			t.Errorf("%s: told %q, error %v", name, lines, err)
		}
	}
}

// TestKVBatchTellsApart: blocks of the same tokens that are not the same.
func TestKVBatchTellsApart(t *testing.T) {
	seen := map[string]string{}
	for name, more := range map[string]pairs{
		"plain":          {},
		"an adapter":     {"lora_name", "a"},
		"another":        {"lora_name", "b"},
		"by number":      {"lora_id", 1},
		"a salt":         {"cache_salt", "a-salt"},
		"an image":       {"extra_keys", list{nil, list{"image-1"}}},
		"another one":    {"extra_keys", list{nil, list{"image-2"}}},
		"in other block": {"extra_keys", list{list{"image-1"}, nil}},
	} {
		lines, _, err := tellAll(t, batchOf(append(pairs{"type", "BlockStored", "block_hashes", list{1, 2}, "token_ids", list{7, 8}, "block_size", 1}, more...)))
		if err != nil || len(lines) != 1 {
			t.Fatal(lines, err)
		}
		if was, ok := seen[lines[0]]; ok {
			t.Errorf("%s is told like %s: %s", name, was, lines[0])
		}
		seen[lines[0]] = name
	}
}

// captured returns batches of real engines: a line of hexadecimal digits each.
func captured(t testing.TB) [][]byte {
	t.Helper()
	text, err := os.ReadFile("testdata/kvbatches.txt")
	if err != nil {
		t.Fatal(err)
	}
	var all [][]byte
	for line := range strings.Lines(string(text)) {
		if line = strings.TrimSpace(line); line == "" || line[0] == '#' {
			continue
		}
		payload, err := hex.DecodeString(line)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, payload)
	}
	return all
}

func TestKVBatchesOfRealEngines(t *testing.T) {
	var all KVTally
	for _, payload := range captured(t) {
		_, n, err := tellAll(t, payload)
		if err != nil || n.Malformed > 0 || n.Ignored > 0 {
			t.Errorf("%+v, %v", n, err)
		}
		all.Stored, all.Removed, all.Cleared = all.Stored+n.Stored, all.Removed+n.Removed, all.Cleared+n.Cleared
	}
	if all.Stored == 0 || all.Removed == 0 || all.Cleared != 1 {
		t.Errorf("in all %+v", all)
	}
}

func FuzzKVBatch(f *testing.F) {
	for _, payload := range captured(f) {
		f.Add(payload)
	}
	f.Add(batchOf(list{"BlockStored", list{1, []byte("12345678")}, 5, list{7, list{8, 9}}, 1, nil, "GPU", "lora", list{list{"x"}}, 0}))
	f.Add(batchOf(pairs{"type", "BlockRemoved", "block_hashes", list{-1}}, pairs{"type", "AllBlocksCleared"}))
	f.Fuzz(func(t *testing.T, payload []byte) {
		var r KVReader
		_, _ = r.Read(payload, func(e *KVEvent) {
			if len(e.Tokens) > 0 && len(e.Tokens) != e.Size*len(e.Hashes) || len(e.Extra) > 0 && len(e.Extra) != len(e.Hashes) || len(e.Hashes) > len(payload) {
				t.Errorf("told %+v", e)
			}
		})
	})
}

package sim

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"testing"
)

func TestParse(t *testing.T) {
	tests := []struct {
		name, path, raw string
		ok              func(r *request) bool
	}{
		{"the last of two keys wins", pathCompletions, `{"prompt":"a","bootstrap_room":1,"bootstrap_room":2}`, func(r *request) bool {
			room, ok := r.room(0)
			return ok && room.number == 2 && slices.Equal(r.duplicates, []string{"bootstrap_room"})
		}},
		{"an escaped key is a key", pathCompletions, `{"prompt":"a","rid":"x","r\u0069d":"y"}`, func(r *request) bool {
			return r.rid(0) == "y" && len(r.duplicates) == 1
		}},
		{"another case is another key", pathCompletions, `{"prompt":"a","RID":"x"}`, func(r *request) bool { return r.rid(0) == "" }},
		{"rooms keep all their digits", pathCompletions, `{"prompt":"a","bootstrap_room":9223372036854775807}`, func(r *request) bool {
			room, ok := r.room(0)
			return ok && room.number == 1<<63-1 && !room.float
		}},
		{"one room for a batch counts up", pathCompletions, `{"prompt":["a","b"],"bootstrap_room":5}`, func(r *request) bool {
			room, ok := r.room(1)
			return ok && room.number == 6 && r.batch
		}},
		{"null is as if it were absent", pathCompletions, `{"prompt":"a","max_tokens":null,"stream":null,"kv_transfer_params":null}`, func(r *request) bool {
			return r.limit() == -1 && !r.stream && r.params == nil
		}},
		{"sampling parameters of generate", pathGenerate, `{"text":"a","sampling_params":{"max_new_tokens":3,"ignore_eos":true}}`, func(r *request) bool {
			return r.limit() == 3 && r.ignoreEOS
		}},
		{"escapes in a text", pathCompletions, `{"prompt":"a\n\u00e9"}`, func(r *request) bool { return r.prompts[0].text == "a\né" }},
		{"tools come into the prompt as they are", pathChat, `{"messages":[],"tools":[{"b":1,"a":2}]}`, func(r *request) bool {
			other, err := parse(pathChat, []byte(`{"messages":[],"tools":[{"a":2,"b":1}]}`))
			return err == nil && other.prompts[0].identity() != r.prompts[0].identity()
		}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			r, err := parse(tt.path, []byte(tt.raw))
			if err != nil || !tt.ok(r) {
				t.Errorf("parse(%s) = %+v, %v", tt.raw, r, err)
			}
		})
	}
}

func FuzzParse(f *testing.F) {
	files, _ := filepath.Glob("testdata/captures/*/*.json")
	for _, name := range files {
		raw, err := os.ReadFile(name)
		if err != nil {
			f.Fatal(err)
		}
		var c struct{ Request json.RawMessage }
		if json.Unmarshal(raw, &c) == nil && len(c.Request) > 0 {
			f.Add([]byte(c.Request))
		}
	}
	f.Add([]byte(`{"prompt":[[1],[2]],"rid":["a","b"],"bootstrap_room":[1.0,2]}`))
	f.Fuzz(func(t *testing.T, raw []byte) {
		for _, path := range []string{pathChat, pathCompletions, pathGenerate} {
			r, err := parse(path, raw)
			if err == nil && !json.Valid(raw) {
				t.Errorf("parse(%q) takes what is not JSON", raw)
			}
			if err != nil {
				continue
			}
			for i := range r.prompts {
				r.room(i)
				r.rid(i)
				r.host(i)
				r.port(i, 1)
			}
			if r.limit() < 1000 {
				_, _ = Expect(path, raw)
			}
		}
	})
}

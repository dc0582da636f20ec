package transfer

import (
	"bytes"
	"reflect"
	"testing"
)

// pieces is a Source that gives a text size bytes at a time, each time in
// another place, and spoils the place before: nobody may look there any more.
type pieces struct {
	text []byte
	size int
	now  []byte
}

func (p *pieces) More() []byte {
	next := bytes.Clone(p.text[:min(len(p.text), len(p.now)+p.size)])
	for i := range p.now {
		p.now[i] = 0
	}
	p.now = next
	return next
}

// checkInPieces checks that a body in pieces is read as it is in one.
func checkInPieces(t *testing.T, e Endpoint, body []byte, want *Request, wantErr error) {
	t.Helper()
	for _, size := range []int{1, 3, 8, 33, len(body)/2 + 1} {
		if size == 1 && len(body) > 512 { // each time a copy of all
			continue
		}
		got, err := Read(e, &pieces{text: body, size: size})
		if !reflect.DeepEqual(err, wantErr) {
			t.Fatalf("Read(%q) in pieces of %d: error %v, want %v", body, size, err, wantErr)
		}
		if err == nil && !reflect.DeepEqual(got, want) {
			t.Fatalf("Read(%q) in pieces of %d = %+v, want %+v", body, size, got, want)
		}
	}
}

// TestReadInPieces puts the borders of pieces into all that can be torn: escapes,
// characters of several bytes, numbers, words, runs of token ids, keys.
func TestReadInPieces(t *testing.T) {
	for _, body := range []string{
		`{"prompt":"\ud83d\ude00 \\ \" \u00e9 日本語 é 😀","n":1,"stream":false}`,
		` { "input_ids" : [ 1 , 22, 333,4444,55555,666666 ,7777777, 0, 10] , "model":null}  `,
		`{"bootst\u0072ap_room":123456789012345678,"sampling_params":[{"n":1},{"max_new_tokens":-12.5e+3}]}`,
		`{"messages":[{"role":"user","content":[[],{},[{}],"a"]}],"vllm_xargs":{"kv_transfer_params":{}}}`,
		`{"prompt":"` + "\xe6\x97" + `"}`,
		`{"prompt":"` + "a\xf0\x9f\x98" + `"}`,
		`{"prompt":"a` + "\x01" + `"}`,
		`{"prompt":"a\ud8"}`, `{"prompt":"a`, `{"n":1,"n":2}`, `{"n":1}x`, `{"n":01}`, `{"n":-}`, `{"n":tru}`, `{"n"`, `{`, ``, ` `, `[1]`, `nul`,
	} {
		for _, e := range []Endpoint{Chat, Completions, Generate} {
			want, err := Parse(e, []byte(body))
			checkInPieces(t, e, []byte(body), want, err)
		}
	}
}

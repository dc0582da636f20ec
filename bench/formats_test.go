package bench

import (
	"slices"
	"strings"
	"testing"
)

func TestReadAny(t *testing.T) {
	tests := []struct {
		name, trace, format string
		want                []Request
		err                 string
	}{
		{
			"a Mooncake trace has ids for 512 tokens",
			`{"timestamp": 5, "input_length": 513, "output_length": 3, "hash_ids": [7, 9]}`, "mooncake",
			[]Request{{Timestamp: 5, InputLength: 513, OutputLength: 3, HashIDs: []int64{7, 9}}},
			"",
		},
		{
			"an Alibaba trace has ids for 16 tokens, and times in seconds",
			`{"chat_id": 1, "parent_chat_id": -1, "timestamp": 61.114, "input_length": 17, "output_length": 3, "type": "text", "turn": 1, "hash_ids": [7, 9]}`, "alibaba",
			[]Request{{Timestamp: 61114, InputLength: 17, OutputLength: 3, HashIDs: []int64{7, 9}, Block: 16}},
			"",
		},
		{
			"an Azure trace has prompts that do not begin alike",
			"TIMESTAMP,ContextTokens,GeneratedTokens\n2023-11-16 18:17:03.9799600,600,10\n2023-11-16 18:17:05.0319600,3,0\n", "azure",
			[]Request{
				{InputLength: 600, OutputLength: 10, HashIDs: []int64{0, 1}},
				{Timestamp: 1052, InputLength: 3, OutputLength: 1, HashIDs: []int64{2}},
			},
			"",
		},
		{"an empty trace has no requests", "", "mooncake", nil, ""},
		{"a line that is cut is named", `{"chat_id": 1, "timestamp": 1, "inp`, "alibaba", nil, "line 1"},
		{"ids must be as many as there are blocks", `{"chat_id": 1, "timestamp": 1, "input_length": 17, "output_length": 3, "hash_ids": [7]}`, "alibaba", nil, "want 2"},
		{"a time that is none is an error", "TIMESTAMP,ContextTokens,GeneratedTokens\nyesterday,600,10\n", "azure", nil, "line 2"},
		{"tokens that are no number are an error", "TIMESTAMP,ContextTokens,GeneratedTokens\n2023-11-16 18:17:03.9,x,10\n", "azure", nil, "tokens"},
		{"columns must be three", "TIMESTAMP,ContextTokens,GeneratedTokens\n2023-11-16 18:17:03.9,600,10\n2023-11-16 18:17:03.9,600\n", "azure", nil, "line 3: 2 columns"},
		{"what is no trace is said to be none", "hello\n", "", nil, `line 1: begins with "hello"`},
		{"a conversation's line is named", "[\n{\"conversations\":\n5}]", "sharegpt", nil, "line 3"},
		{"conversations that are cut are an error", `[{"conversations":[`, "sharegpt", nil, "line 1"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			reqs, format, err := ReadAny(strings.NewReader(tt.trace))
			if format != tt.format || (err == nil) != (tt.err == "") || err != nil && !strings.Contains(err.Error(), tt.err) {
				t.Fatalf("ReadAny = %s, %v, want %s and %q", format, err, tt.format, tt.err)
			}
			if !slices.EqualFunc(reqs, tt.want, func(a, b Request) bool {
				return a.Timestamp == b.Timestamp && a.InputLength == b.InputLength && a.OutputLength == b.OutputLength && a.block() == b.block() && slices.Equal(a.HashIDs, b.HashIDs)
			}) {
				t.Errorf("ReadAny = %+v, want %+v", reqs, tt.want)
			}
		})
	}
}

func TestReadShareGPT(t *testing.T) {
	hi, answer := strings.Repeat("hello there ", 20), strings.Repeat("general ", 10)
	reqs, _, err := ReadAny(strings.NewReader(`[{"id":"a","conversations":[{"from":"human","value":"` + hi + `"},{"from":"gpt","value":"` + answer +
		`"},{"from":"human","value":"` + hi + `"}]},{"id":"b","conversations":[{"from":"human","value":"` + hi + `"}]}]`))
	if err != nil || len(reqs) != 3 {
		t.Fatalf("ReadAny = %d requests, %v, want 3", len(reqs), err)
	}
	first, other, second := reqs[0], reqs[1], reqs[2]
	if first.OutputLength != 20 || second.InputLength != 140 || second.Timestamp != shareTurn || other.Timestamp != shareBegin {
		t.Errorf("requests are %+v", reqs)
	}
	if !slices.Equal(first.HashIDs, other.HashIDs) {
		t.Error("equal prompts have different ids")
	}
	if whole := first.InputLength / first.block(); !slices.Equal(first.HashIDs[:whole], second.HashIDs[:whole]) {
		t.Error("a conversation's second turn does not begin as the first")
	}
	for _, r := range reqs {
		if err := r.check(nil); err != nil {
			t.Error(err)
		}
	}
}

func FuzzReadAny(f *testing.F) {
	f.Add([]byte(`{"chat_id": 1, "timestamp": 61.1, "input_length": 17, "output_length": 3, "hash_ids": [7, 9]}`))
	f.Add([]byte("TIMESTAMP,ContextTokens,GeneratedTokens\n2023-11-16 18:17:03.9799600,600,10\n"))
	f.Add([]byte(`[{"conversations":[{"from":"human","value":"hello"}]}]`))
	f.Fuzz(func(t *testing.T, b []byte) {
		reqs, _, err := ReadAny(strings.NewReader(string(b)))
		if err != nil && reqs != nil {
			t.Errorf("ReadAny = %d requests and %v", len(reqs), err)
		}
		for i, r := range reqs {
			if err := r.check(reqs[:i]); err != nil {
				t.Errorf("request %d: %v", i+1, err)
			}
		}
	})
}

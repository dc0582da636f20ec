package bench

import (
	"strings"
	"testing"
	"time"
)

func TestReadTrace(t *testing.T) {
	const good = `{"timestamp": 5, "input_length": 513, "output_length": 3, "hash_ids": [7, 9]}` + "\n"
	tests := []struct{ name, trace, err string }{
		{"an empty trace has no requests", "", ""},
		{"every line is a request", good + good, ""},
		{"keys that are not known are let be", `{"timestamp":1,"input_length":1,"output_length":1,"hash_ids":[0],"tenant":"x"}`, ""},
		{"a line that is cut is named", good + `{"timestamp": 6, "inp`, "line 2"},
		{"a prompt needs tokens", `{"timestamp":1,"input_length":0,"output_length":1,"hash_ids":[]}`, "input_length 0"},
		{"an answer needs tokens", `{"timestamp":1,"input_length":1,"output_length":0,"hash_ids":[0]}`, "output_length 0"},
		{"there is one id for each 512 tokens", `{"timestamp":1,"input_length":512,"output_length":1,"hash_ids":[0,1]}`, "2 hash_ids for an input_length of 512, want 1"},
		{"time does not go back", good + `{"timestamp":4,"input_length":1,"output_length":1,"hash_ids":[0]}`, "timestamp 4 is before"},
		{"empty lines are no requests, and count", "\n" + good + "\n\n{}", "line 5: input_length 0"},
		{"a line has one request", strings.TrimSpace(good) + good, "line 1: invalid character"},
		{"a length that is no number is an error", `{"timestamp":1,"input_length":"9"}`, "line 1"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			reqs, err := ReadTrace(strings.NewReader(tt.trace))
			if tt.err == "" {
				if err != nil || len(reqs) != strings.Count(tt.trace, "timestamp") {
					t.Fatalf("ReadTrace = %d requests, %v", len(reqs), err)
				}
				return
			}
			if err == nil || !strings.Contains(err.Error(), tt.err) {
				t.Fatalf("ReadTrace = %v, want an error with %q", err, tt.err)
			}
		})
	}
}

func TestConversation(t *testing.T) {
	reqs, err := Conversation()
	if err != nil {
		t.Fatal(err)
	}
	if first := reqs[0]; first.InputLength != 6758 || first.OutputLength != 500 || first.HashIDs[13] != 13 {
		t.Errorf("the first request is %+v", first)
	}
	if last := reqs[len(reqs)-1].At(); last < 4*time.Minute || last >= 5*time.Minute {
		t.Errorf("the last request is due at %v, want just before five minutes", last)
	}
	two := Before(reqs, 2*time.Minute)
	if len(two) != 339 || two[338].At() >= 2*time.Minute || reqs[339].At() < 2*time.Minute {
		t.Errorf("Before(two minutes) = %d requests, want 339", len(two))
	}
	if got := Before(reqs, time.Hour); len(got) != len(reqs) {
		t.Errorf("Before(an hour) = %d requests, want all %d", len(got), len(reqs))
	}
}

func TestLengths(t *testing.T) {
	reqs := []Request{
		{InputLength: 1000, HashIDs: []int64{0, 1}},
		{InputLength: 1100, HashIDs: []int64{0, 2, 3}}, // 512 repeat
		{InputLength: 1000, HashIDs: []int64{0, 1}},    // all repeat, the last block being of 488
	}
	if total, repeated := Lengths(reqs); total != 3100 || repeated != 1512 {
		t.Errorf("Lengths = %d, %d, want 3100 and 1512", total, repeated)
	}
	if got := Ceiling(reqs); got != 3.0/7 {
		t.Errorf("Ceiling = %v, want 3 blocks of 7", got)
	}
}

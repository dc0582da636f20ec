package transfer

import (
	"encoding/json"
	"strings"
	"testing"
)

// TestAttemptsShareNothing: a room or an id used twice hands one client's
// answer to another (BUG-010, I2).
func TestAttemptsShareNothing(t *testing.T) {
	req := parse(t, Completions, `{"prompt":["a","b","c"]}`)
	seen := map[any]bool{}
	high := false
	for range 1000 {
		a := NewAttempt(req)
		if len(a.ID) != 32 || len(a.Rooms) != 3 {
			t.Fatalf("NewAttempt: id %q, %d rooms, want 32 characters, 3 rooms", a.ID, len(a.Rooms))
		}
		for _, room := range a.Rooms {
			if room>>63 != 0 || seen[room] {
				t.Fatalf("room %d is above 63 bits or was there before", room)
			}
			seen[room] = true
			high = high || room>>62 == 1
		}
		if seen[a.ID] {
			t.Fatalf("id %s was there before", a.ID)
		}
		seen[a.ID] = true
	}
	if !high {
		t.Error("no room of 3000 uses the highest of the 63 bits")
	}
}

// TestNamesOfPromptsAreOfOneWidth: SGLang aborts by prefix, so that none may
// begin with another.
func TestNamesOfPromptsAreOfOneWidth(t *testing.T) {
	a := Attempt{ID: strings.Repeat("0", 32)}
	if got := a.RID(parse(t, Completions, `{"prompt":"a"}`), 0); got != a.ID {
		t.Errorf("RID of one prompt = %s, want %s", got, a.ID)
	}
	batch := parse(t, Completions, `{"prompt":["a","b"]}`)
	for i, want := range map[int]string{0: "-0000", 7: "-0007", 10: "-0010", 999: "-0999", MaxBatch - 1: "-4095"} {
		if got := a.RID(batch, i); got != a.ID+want {
			t.Errorf("RID(%d) = %s, want %s", i, got, a.ID+want)
		}
	}
}

// TestBootstrapPortZeroIsNull: the engine then takes its own default.
func TestBootstrapPortZeroIsNull(t *testing.T) {
	for body, want := range map[string]string{`{"prompt":"a"}`: `null`, `{"prompt":["a","b"]}`: `[null,null]`} {
		req := parse(t, Completions, body)
		a := testAttempt(req)
		a.BootstrapPort = 0
		leg, err := SGLang{}.Prefill(req, a)
		if err != nil {
			t.Fatal(err)
		}
		var got struct {
			Port json.RawMessage `json:"bootstrap_port"`
		}
		if err := json.Unmarshal([]byte(legText(t, leg)), &got); err != nil || string(got.Port) != want {
			t.Errorf("bootstrap_port = %s, %v, want %s", got.Port, err, want)
		}
	}
}

// TestBootstrapHostIsQuoted: an IPv6 zone or worse must not break out.
func TestBootstrapHostIsQuoted(t *testing.T) {
	req := parse(t, Chat, `{}`)
	a := testAttempt(req)
	a.BootstrapHost = "fe80::1%\"\\\x01é"
	leg, err := SGLang{}.Decode(req, a, nil)
	if err != nil {
		t.Fatal(err)
	}
	if got := object([]byte(legText(t, leg)))["bootstrap_host"]; got != a.BootstrapHost {
		t.Errorf("bootstrap_host = %q, want %q", got, a.BootstrapHost)
	}
}

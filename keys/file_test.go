package keys

import (
	"errors"
	"strings"
	"testing"
)

const (
	long  = "0123456789abcdef"
	other = "fedcba9876543210"
)

func TestParse(t *testing.T) {
	for _, tt := range []struct {
		name, text string
		want       []Key  // in order
		fault      string // of which the error has this
	}{
		{"one key", long, []Key{New("", long)}, ""},
		{"names and blanks", "alice:" + long + "\nbob = " + other + "\n", []Key{New("alice", long), New("bob", other)}, ""},
		{"names, by both signs", "alice:" + long + "\nbob=" + other + "\r\n", []Key{New("alice", long), New("bob", other)}, ""},
		{"a blank behind the sign", "alice: " + long, []Key{New("alice", long)}, ""},
		{"remarks and blank lines", "# of the team\n\n  " + long + "  \n#" + other, []Key{New("", long)}, ""},
		{"a byte order mark", "\ufeffa:" + long, []Key{New("a", long)}, ""},
		{"one name for two keys, of which one is to go", "a:" + long + "\na:" + other, []Key{New("a", long), New("a", other)}, ""},
		{"a sign in the key", "a:" + long + "=x:", []Key{New("a", long+"=x:")}, ""},
		{"a sign before which there is no name", long + "/x=" + other, []Key{New("", long+"/x="+other)}, ""},
		{"base64, which is no name with a key", "c2VjcmV0LWtleS0xMjM0NTY3OA==", nil, "line 1 is no key: what is behind the name has fewer than 16"},
		{"base64 with a name", "a:c2VjcmV0LWtleS0xMjM0NTY3OA==", []Key{New("a", "c2VjcmV0LWtleS0xMjM0NTY3OA==")}, ""},
		{"a key that is short", "# x\nsesame", nil, "line 2 is no key: it has fewer than 16"},
		{"a short one with a name", "a:sesame", nil, "fewer than 16"},
		{"a blank in it", long + " " + other, nil, "line 1 is no key: a key is made of visible"},
		{"one twice", "a:" + long + "\nb:" + long, nil, "line 2 is a key for the second time"},
		{"nothing", "", nil, ErrNone.Error()},
		{"remarks only", "# none yet\n", nil, ErrNone.Error()},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got, err := Parse([]byte(tt.text))
			if tt.fault != "" {
				if err == nil || !strings.Contains(err.Error(), tt.fault) {
					t.Errorf("Parse = %v, want a fault with %q", err, tt.fault)
				}
				for _, secret := range []string{long, other, "sesame", "c2Vj"} {
					if err != nil && strings.Contains(err.Error(), secret) {
						t.Errorf("the fault tells a key: %v", err)
					}
				}
				return
			}
			if err != nil || len(got) != len(tt.want) {
				t.Fatalf("Parse = %d keys, %v, want %d", len(got), err, len(tt.want))
			}
			for i := range got {
				if got[i] != tt.want[i] {
					t.Errorf("key %d is another one, or of another name: %q, want %q", i, got[i].Name, tt.want[i].Name)
				}
			}
		})
	}
}

func TestParseOne(t *testing.T) {
	for _, tt := range []struct{ name, text, want, fault string }{
		{"a key and the end of its line", "engine-key\n", "engine-key", ""},
		{"what would be a name elsewhere", "a:b==\n", "a:b==", ""},
		{"two", "a\nb\n", "", "line 2 is one more key"},
		{"none", "\n", "", ErrNone.Error()},
		{"a blank in it", "a b", "", "line 1 a key is made of"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got, err := ParseOne([]byte(tt.text))
			if got != tt.want || (err == nil) != (tt.fault == "") || err != nil && !strings.Contains(err.Error(), tt.fault) {
				t.Errorf("ParseOne = %q, %v, want %q, %q", got, err, tt.want, tt.fault)
			}
		})
	}
	if _, err := ParseOne(nil); !errors.Is(err, ErrNone) {
		t.Errorf("ParseOne of nothing = %v, want ErrNone", err)
	}
}

// FuzzParse: whatever is read as a key lets in who sends it and nobody who sends
// nothing, and no fault quotes a line.
func FuzzParse(f *testing.F) {
	for _, seed := range []string{long, "a:" + long, "a=" + other + "\n#x\n", "x==", "\ufeff", "a:b", strings.Repeat("a", 70) + ":" + long} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		set, err := Parse(text)
		if err != nil {
			return
		}
		if len(set) == 0 {
			t.Fatal("no key and no fault")
		}
		for _, sent := range []string{"", "Bearer", "Bearer ", "Bearer =", "Bearer :"} {
			if _, in := set.Find(sent); in {
				t.Errorf("%q lets in", sent)
			}
		}
		for _, k := range set {
			if k.Name != "" && !isName(k.Name) {
				t.Errorf("the name %q goes to the log", k.Name)
			}
		}
	})
}

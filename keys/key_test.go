package keys

import (
	"fmt"
	"strings"
	"testing"
)

func TestFind(t *testing.T) {
	set := Set{New("alice", "alice-key"), New("", "nobody-key"), New("bob", "bob-key")}
	for _, tt := range []struct {
		name, sent, want string
		found            bool
	}{
		{"a key with a name", "Bearer alice-key", "alice", true},
		{"the last one", "Bearer bob-key", "bob", true},
		{"one without a name", "Bearer nobody-key", "", true},
		{"the scheme in small letters, and blanks", "bearer   bob-key ", "bob", true},
		{"nothing", "", "", false},
		{"no key", "Bearer ", "", false},
		{"a part of a key", "Bearer bob-ke", "", false},
		{"more than a key", "Bearer bob-keyy", "", false},
		{"a name", "Bearer bob", "", false},
		{"a name and its key", "Bearer bob:bob-key", "", false},
		{"another scheme", "Basic bob-key", "", false},
		{"no scheme", "bob-key", "", false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if name, found := set.Find(tt.sent); name != tt.want || found != tt.found {
				t.Errorf("Find(%q) = %q, %t, want %q, %t", tt.sent, name, found, tt.want, tt.found)
			}
		})
	}
	if _, found := Set(nil).Find("Bearer "); found {
		t.Error("an empty set lets somebody in")
	}
}

// TestKeysAreNotKeptInClear, and not printed by whoever prints a set.
func TestKeysAreNotKeptInClear(t *testing.T) {
	set := Of("a-key-of-letters")
	if text := fmt.Sprintf("%v %+v %#v", set, set, set); strings.Contains(text, "a-key-of-letters") {
		t.Errorf("a set says %s", text)
	}
	if !New("x", "").IsEmpty() || !(Key{}).IsEmpty() || New("", "x").IsEmpty() {
		t.Error("IsEmpty is not true of the empty key alone")
	}
}

// manyKeys returns n keys, and the header with the last of them.
func manyKeys(n int) (set Set, last string) {
	for i := range n {
		secret := fmt.Sprintf("sk-%032d", i)
		set, last = append(set, New(fmt.Sprint("key-", i), secret)), "Bearer "+secret
	}
	return set, last
}

// TestADigestStandsForItsKey where keys are configured, and not where one is sent.
func TestADigestStandsForItsKey(t *testing.T) {
	k := New("alice", "alice-key")
	if got := New("alice", k.Digest()); got != k {
		t.Errorf("New(%s) is another key", k.Digest())
	}
	if !strings.HasPrefix(k.Digest(), "sha256:") || strings.Contains(k.Digest(), "alice") {
		t.Errorf("Digest() = %s", k.Digest())
	}
	if _, found := (Set{k}).Find("Bearer " + k.Digest()); found {
		t.Error("who has the digest is let in")
	}
	for _, text := range []string{"sha256:", "sha256:00", k.Digest() + "0", "sha256:" + strings.Repeat("x", 64)} {
		if _, found := (Set{New("", text)}).Find("Bearer " + text); !found {
			t.Errorf("%s, which is no digest, is no key either", text)
		}
	}
}

func TestFindAllocatesNothing(t *testing.T) {
	set, last := manyKeys(100)
	if n := testing.AllocsPerRun(100, func() { set.Find(last) }); n != 0 {
		t.Errorf("Find makes %v allocations, want none", n)
	}
}

func BenchmarkFind(b *testing.B) {
	for _, n := range []int{1, 10, 100} {
		set, last := manyKeys(n)
		for _, sent := range []struct{ name, header string }{{"the last", last}, {"none", "Bearer x" + last[8:]}} {
			b.Run(fmt.Sprintf("%d keys, %s", n, sent.name), func(b *testing.B) {
				b.ReportAllocs()
				for b.Loop() {
					set.Find(sent.header)
				}
			})
		}
	}
}

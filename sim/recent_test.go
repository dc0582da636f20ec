package sim

import "testing"

func TestRecentForgetsTheOldest(t *testing.T) {
	var r recent[int]
	for i := range maxRecent + 10 {
		if r.add(i) {
			t.Fatalf("add(%d) = true for a new key", i)
		}
	}
	if !r.add(11) || r.has(9) || len(r.set) != maxRecent {
		t.Errorf("has(11) %v, has(9) %v, %d keys; want the last %d", r.has(11), r.has(9), len(r.set), maxRecent)
	}
}

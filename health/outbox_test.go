package health

import (
	"slices"
	"testing"
	"time"
)

// TestOutboxKeepsTheOrder: what is put in while something is being sent goes out
// after it, once, and only the newest of several.
func TestOutboxKeepsTheOrder(t *testing.T) {
	var said []string
	var o outbox
	o.bar = func(_ time.Time, reason string) {
		said = append(said, "begin "+reason)
		if reason == "first" {
			for _, next := range []string{"second", "third"} {
				o.put(time.Now(), next)
				o.flush()
			}
		}
		said = append(said, "end "+reason)
	}
	o.put(time.Now(), "first")
	o.flush()
	o.flush()
	if want := []string{"begin first", "end first", "begin third", "end third"}; !slices.Equal(said, want) {
		t.Errorf("it said %q, want %q", said, want)
	}
}

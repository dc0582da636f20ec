package sim

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"strings"
	"sync"
)

// live is the requests being served, by rid.
type live struct {
	mu   sync.Mutex
	rids map[string]context.CancelCauseFunc
}

func newLive() *live { return &live{rids: map[string]context.CancelCauseFunc{}} }

// add notes a request. It reports whether its rid is taken, and whether it is
// the beginning of another one or the other way round, which /abort_request
// could not tell apart.
func (l *live) add(rid string, cancel context.CancelCauseFunc) (taken, prefix bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.rids[rid] != nil {
		return true, false
	}
	for other := range l.rids {
		if len(other) != len(rid) && (strings.HasPrefix(other, rid) || strings.HasPrefix(rid, other)) {
			prefix = true
		}
	}
	l.rids[rid] = cancel
	return false, prefix
}

func (l *live) remove(rid string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.rids, rid)
}

// abort stops the requests whose rid begins with rid, as SGLang does if there
// is one with exactly that rid; all of them if all is set.
func (l *live) abort(rid string, all bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.rids[rid] == nil && !all {
		return
	}
	for other, cancel := range l.rids {
		if all || strings.HasPrefix(other, rid) {
			cancel(errAborted)
		}
	}
}

// randomHex returns n random bytes in hexadecimal.
func randomHex(n int) string {
	b := make([]byte, n)
	_, _ = rand.Read(b)
	return hex.EncodeToString(b)
}

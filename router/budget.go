package router

import (
	"context"
	"sync"
	"time"
)

// What a budget holds and earns. It is full at the start, so that a burst of
// failures soon after it is met too; what comes by itself keeps a router with
// little traffic able to retry; what requests earn bounds retries to a fifth of
// them when everything fails, and a fleet in trouble is not beaten further.
const (
	budgetMost   = 100.0
	budgetPerAsk = 0.2
	budgetPerSec = 3.0
	budgetWait   = time.Second // how long a retry waits when it is dry
)

// A budget bounds the retries of all requests together. It is a token bucket.
type budget struct {
	mu     sync.Mutex
	tokens float64
	at     time.Time // when tokens was right
}

func newBudget() *budget { return &budget{tokens: budgetMost, at: time.Now()} }

// earn adds what one request brings.
func (b *budget) earn() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.tokens = min(b.tokens+budgetPerAsk, budgetMost)
}

// spend takes what one retry costs, for which it waits a second at most. It
// reports whether the retry may be made.
func (b *budget) spend(ctx context.Context) bool {
	wait := b.reserve(time.Now())
	if wait < 0 {
		return false
	}
	return wait == 0 || sleep(ctx, wait)
}

// reserve takes one token, and returns how long it takes until it is there;
// below 0: too long, and nothing was taken.
func (b *budget) reserve(now time.Time) time.Duration {
	b.mu.Lock()
	defer b.mu.Unlock()
	if passed := now.Sub(b.at).Seconds(); passed > 0 {
		b.tokens, b.at = min(b.tokens+budgetPerSec*passed, budgetMost), now
	}
	lacking := 1 - b.tokens
	wait := time.Duration(lacking / budgetPerSec * float64(time.Second))
	if wait > budgetWait {
		return -1
	}
	b.tokens--
	return max(wait, 0)
}

// left returns how many retries may be made at once.
func (b *budget) left() float64 {
	b.mu.Lock()
	defer b.mu.Unlock()
	return max(min(b.tokens+budgetPerSec*time.Since(b.at).Seconds(), budgetMost), 0)
}

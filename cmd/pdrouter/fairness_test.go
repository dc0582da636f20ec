package main

import (
	"bufio"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"pdrouter/sim"
)

// A caller is who uses one API key, in streams that it begins at random.
type caller struct {
	t      *testing.T
	base   string
	key    string
	client *http.Client
	tokens func(*rand.Rand) int

	mu     sync.Mutex // guards the following
	ttft   []time.Duration
	status map[int]int
}

// call begins so many streams, at this rate, and returns when all have ended.
func (c *caller) call(n int, perSecond float64) {
	chance := rand.New(rand.NewPCG(1, uint64(n)))
	c.ttft, c.status = nil, map[int]int{}
	var all sync.WaitGroup
	pace := time.NewTimer(0)
	defer pace.Stop()
	for i := range n {
		<-pace.C
		pace.Reset(time.Duration(chance.ExpFloat64() / perSecond * float64(time.Second)))
		tokens := c.tokens(chance)
		all.Go(func() { c.stream(i, tokens) })
	}
	all.Wait()
}

func (c *caller) stream(i, tokens int) {
	a := completion(c.t, 1, fmt.Sprint(c.key, " asks for the ", i), tokens)
	req, err := http.NewRequestWithContext(c.t.Context(), http.MethodPost, c.base+a.path, strings.NewReader(a.body))
	if err != nil {
		c.t.Error(err)
		return
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Authorization", "Bearer "+c.key)
	begin := time.Now()
	resp, err := c.client.Do(req)
	if err != nil {
		c.t.Error(err)
		return
	}
	defer resp.Body.Close()
	_, _ = bufio.NewReader(resp.Body).ReadString('\n') // its head comes with the first token
	took := time.Since(begin)
	_, _ = io.Copy(io.Discard, resp.Body)
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.status[resp.StatusCode]++; resp.StatusCode == http.StatusOK {
		c.ttft = append(c.ttft, took)
	}
}

// p99 is over so few that it is the slowest but one in a hundred.
func (c *caller) p99() time.Duration {
	slices.Sort(c.ttft)
	return c.ttft[(len(c.ttft)-1)*99/100]
}

// TestOneKeyDoesNotCrowdOutAnother: a key that sends fifty times as much as
// another, and many times what there is room for, does not lengthen the other's
// p99 TTFT by more than half, and none of the other's requests is refused.
func TestOneKeyDoesNotCrowdOutAnother(t *testing.T) {
	if testing.Short() {
		t.Skip("takes a quarter of a minute")
	}
	f := newFleet(t, fleetPlan{dialect: sim.VLLMNixl, engine: func(c *sim.Config) {
		c.MaxRunning = 160
		if c.Role == sim.Decode {
			c.DecodePerToken = 400 * time.Millisecond
		}
	}, config: func(c *Config) {
		c.Workers.Admission.MaxInFlight, c.Workers.Admission.QueueSize = 160, 40
	}})
	client := newClient(t)
	large := &caller{t: t, base: f.base, key: "large", client: client, tokens: func(r *rand.Rand) int { return 1 + r.IntN(5) }}
	const n, rate = 40, 8
	for tries := 1; ; tries++ { // others on the machine are not told apart from the large one
		small := &caller{t: t, base: f.base, key: "small", client: client, tokens: func(*rand.Rand) int { return 2 }}
		small.call(n, rate)
		alone := small.p99()
		var both sync.WaitGroup
		both.Go(func() { large.call(50*n, 50*rate) })
		small.call(n, rate)
		both.Wait()
		t.Logf("p99 TTFT %v alone, %v beside a key that sends fifty times as much, of which %v", alone, small.p99(), large.status)
		if small.status[http.StatusOK] != n {
			t.Fatalf("the small one's requests ended as %v, want %d times 200", small.status, n)
		}
		limit := alone + alone/2
		if small.p99() <= limit {
			break
		}
		if tries == 3 {
			t.Fatalf("p99 TTFT is %v beside the large one, want at most %v", small.p99(), limit)
		}
	}
	if large.status[http.StatusTooManyRequests] == 0 {
		t.Error("the large one was refused nothing: there was no shortage")
	}
}

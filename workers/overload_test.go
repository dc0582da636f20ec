package workers

import (
	"errors"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// An overload is a service of so many slots that requests come to at random, and
// what became of them. A request holds its slot for a second on average, and its
// first token comes after a third of one.
type overload struct {
	slots  int
	r      *Registry
	chance *rand.Rand
	all    sync.WaitGroup

	mu      sync.Mutex // guards the following
	ttft    []time.Duration
	ended   []time.Duration // since begin
	again   int             // obeyed Retry-After
	went    int             // of these, were served then
	longest time.Duration
	begin   time.Time
}

func newOverload(t *testing.T, slots, queue int) *overload {
	r := admitting(t, 2, least{}, func(a *Admission) { a.MaxInFlight, a.QueueSize = slots, queue })
	return &overload{slots: slots, r: r, chance: rand.New(rand.NewPCG(1, 2)), begin: time.Now()}
}

// come lets requests come at so many times what the slots can do.
func (o *overload) come(t *testing.T, load float64, lasts time.Duration) {
	for end := time.Now().Add(lasts); time.Now().Before(end); {
		time.Sleep(time.Duration(o.chance.ExpFloat64() / load / float64(o.slots) * float64(time.Second)))
		takes := time.Duration(o.chance.ExpFloat64() * float64(time.Second))
		o.all.Go(func() {
			if stay := o.ask(t, takes); stay > 0 {
				time.Sleep(stay)
				stay = o.ask(t, takes)
				o.mu.Lock()
				defer o.mu.Unlock()
				o.again++
				if stay == 0 {
					o.went++
				}
			}
		})
	}
}

// ask is one request. It returns when to come again; 0: it was served.
func (o *overload) ask(t *testing.T, takes time.Duration) (stay time.Duration) {
	var pair Pair
	begin := time.Now()
	err := o.r.Lease(t.Context(), Need{Prompt: Prompt{Bytes: 4}}, &pair)
	if shed, ok := errors.AsType[*ShedError](err); ok {
		o.mu.Lock()
		defer o.mu.Unlock()
		o.longest = max(o.longest, shed.RetryAfter)
		return shed.RetryAfter
	}
	if err != nil {
		t.Errorf("Lease = %v", err)
		return 0
	}
	waited := time.Since(begin)
	time.Sleep(takes)
	drop(&pair)
	o.mu.Lock()
	defer o.mu.Unlock()
	o.ttft = append(o.ttft, waited+time.Second/3)
	o.ended = append(o.ended, time.Since(o.begin))
	return 0
}

// goodput returns how many requests ended in each second of a time.
func (o *overload) goodput(from, to time.Duration) float64 {
	o.mu.Lock()
	defer o.mu.Unlock()
	n := 0
	for _, at := range o.ended {
		if at >= from && at < to {
			n++
		}
	}
	return float64(n) / (to - from).Seconds()
}

func (o *overload) p99() time.Duration {
	o.mu.Lock()
	defer o.mu.Unlock()
	slices.Sort(o.ttft)
	return o.ttft[len(o.ttft)*99/100]
}

// TestOverload: what comes twice as fast as it can be served does not keep the
// service from doing what it can, nor those who are let in from their first token,
// and the others are told a time at which they are served.
func TestOverload(t *testing.T) {
	for name, slots := range map[string]int{"sixteen slots": 16, "sixty-four slots": 64} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				calm := newOverload(t, slots, slots/2)
				calm.come(t, 0.9, 2*time.Minute)
				calm.all.Wait()
				o := newOverload(t, slots, slots/2)
				o.come(t, 2, time.Minute)
				goodput, p99 := o.goodput(5*time.Second, time.Minute)/float64(slots), o.p99()
				o.all.Wait()
				served := float64(o.went) / float64(o.again)
				t.Logf("goodput %.2f of what can be done; p99 TTFT %v, %v at 90 %% load; %d were refused, %.3f of them served when they came again", goodput, p99, calm.p99(), o.again, served)
				if goodput < 0.95 {
					t.Errorf("goodput is %.2f of what can be done, want 0.95", goodput)
				}
				if most := 2 * calm.p99(); p99 > most {
					t.Errorf("p99 TTFT of those let in is %v, want at most %v", p99, most)
				}
				if o.longest > mostRetryAfter*time.Second || served < 0.9 {
					t.Errorf("%.3f of those who came again when they were told were served, want 9 of 10; the longest stay was %v", served, o.longest)
				}
			})
		})
	}
}

package workers

import (
	"fmt"
	"sync"
	"time"
)

// keeper is a Planner that keeps everyone until told to let somebody go, and
// notes what it learns.
type keeper struct {
	first

	mu      sync.Mutex
	free    int // how many may go
	wake    time.Duration
	asked   int
	waiting int  // when it was asked last
	byRoom  bool // it grants the first that has room, to who has done least
	ended   []Prefilled
	seats   []int // of ended
	told    []string
}

func (k *keeper) Next(now time.Time, waiting []*Waiter, pools []Pool) (Grant, time.Time) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.asked++
	k.waiting = len(waiting)
	if k.free == 0 {
		if k.wake == 0 {
			return NoGrant(), time.Time{}
		}
		return NoGrant(), now.Add(k.wake)
	}
	if k.byRoom {
		return grantByRoom(waiting, pools), time.Time{}
	}
	k.free--
	c := k.Choose(waiting[0].Need, pools)
	c.Expect = Expectation{Ticket: uint64(k.asked), Blocks: len(waiting[0].Need.Prompt.Chain)}
	return Grant{Waiter: 0, Choice: c}, time.Time{}
}

func grantByRoom(waiting []*Waiter, pools []Pool) Grant {
	for i, w := range waiting {
		best := -1
		for j, l := range pools[0].Decode {
			if l.HasRoom(&w.Need) && (best < 0 || l.before(pools[0].Decode[best])) {
				best = j
			}
		}
		if best >= 0 {
			return Grant{Waiter: i, Choice: Choice{Decode: best}}
		}
	}
	return NoGrant()
}

func (k *keeper) let(n int) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.free += n
}

func (k *keeper) Ended(seat int, p Prefilled) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.ended, k.seats = append(k.ended, p), append(k.seats, seat)
}

func (k *keeper) note(what string, seat int) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.told = append(k.told, fmt.Sprint(what, " ", seat))
}

func (k *keeper) Reported(seat int, _ Report) { k.note("reported", seat) }
func (k *keeper) Flushed(seat int)            { k.note("flushed", seat) }
func (k *keeper) Gone(seat int)               { k.note("gone", seat) }

package policy

import (
	"math"
	"testing"
	"time"
)

func TestSpeed(t *testing.T) {
	tests := []struct {
		name         string
		legs         [][2]float64 // bytes, seconds
		leg, perByte float64
	}{
		{"nothing is known of a new worker", nil, firstLeg, firstByte},
		{"a line is found", [][2]float64{{0, 0.1}, {1000, 1.1}, {2000, 2.1}}, 0.1, 0.001},
		{"legs that are all alike are of bytes only", [][2]float64{{1000, 1}, {1000, 1}}, 0, 0.001},
		{"legs without bytes are of the leg only", [][2]float64{{0, 0.2}, {0, 0.2}}, 0.2, firstByte},
		{"a leg does not take less than nothing", [][2]float64{{1000, 0.5}, {2000, 2}}, 0, 0.0009},
		{"a byte does not take less than nothing", [][2]float64{{1000, 2}, {2000, 1}}, 1.5, 0},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var s speed
			for _, l := range tt.legs {
				s.learn(l[0], time.Duration(l[1]*float64(time.Second)))
			}
			leg, perByte := s.line()
			if math.Abs(leg-tt.leg) > 0.02 || math.Abs(perByte-tt.perByte) > 1e-5 {
				t.Errorf("line = %v s and %v s for each byte, want %v and %v", leg, perByte, tt.leg, tt.perByte)
			}
		})
	}
}

// TestSpeedFollows: a worker that becomes slower is known to be after a while.
func TestSpeedFollows(t *testing.T) {
	var s speed
	for i := range 4000 {
		slow := 1.0
		if i >= 1000 {
			slow = 3
		}
		bytes := float64(i%10) * 1000
		s.learn(bytes, time.Duration((0.05+bytes/1e5)*slow*float64(time.Second)))
	}
	if leg, perByte := s.line(); math.Abs(leg-0.15) > 0.01 || math.Abs(perByte-3e-5) > 1e-6 {
		t.Errorf("line = %v, %v, want 0.15 and 3e-05", leg, perByte)
	}
}

func TestPace(t *testing.T) {
	for _, tt := range []struct {
		name string
		took time.Duration // of what was to take a second
		legs int
		want float64
	}{
		{"a worker that is not known is as all", 2 * time.Second, 5, 1},
		{"one that takes twice as long", 2 * time.Second, 50, 2},
		{"one that takes half as long", 500 * time.Millisecond, 50, 0.5},
		{"one that is nearly as all is as all", 1050 * time.Millisecond, 50, 1},
		{"one of which each leg takes for ever", time.Hour, 50, 4},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var p pace
			for range tt.legs {
				p.learn(time.Second, tt.took)
			}
			if got := p.value(); math.Abs(got-tt.want) > 0.01 {
				t.Errorf("value = %v, want %v", got, tt.want)
			}
		})
	}
}

func TestQueue(t *testing.T) {
	at := func(s float64) time.Time { return time.Unix(1e9, 0).Add(time.Duration(s * float64(time.Second))) }
	var q queue
	if b := q.backlog(at(0)); b != 0 {
		t.Errorf("the backlog of a new worker = %v", b)
	}
	first, second, third := q.push(at(0), 2*time.Second), q.push(at(1), time.Second), q.push(at(1), 3*time.Second)
	steps := []struct {
		name    string
		do      func() time.Duration // how long a leg took
		took    float64
		now     float64
		backlog float64
	}{
		{"what has been done is taken off", nil, 0, 1.5, 4.5},
		{"a leg that takes longer than expected may end at any moment", nil, 0, 9, 4},
		{"the first was alone", func() time.Duration { return q.end(at(3), first) }, 3, 3, 4},
		{"legs may end in another order", func() time.Duration { return q.end(at(4), third) }, 1, 4, 1},
		{"the last began when the one before ended", func() time.Duration { return q.end(at(6), second) }, 2, 6, 0},
		{"a leg ends once", func() time.Duration { return q.end(at(7), second) }, -1e-9, 7, 0},
		{"a leg that is not there does not end", func() time.Duration { return q.end(at(7), 99) }, -1e-9, 7, 0},
	}
	for _, tt := range steps {
		t.Run(tt.name, func(t *testing.T) {
			if tt.do != nil {
				if took := tt.do(); math.Abs(took.Seconds()-tt.took) > 1e-6 {
					t.Errorf("the leg took %v, want %v s", took, tt.took)
				}
			}
			if b := q.backlog(at(tt.now)); math.Abs(b.Seconds()-tt.backlog) > 1e-6 {
				t.Errorf("backlog = %v, want %v s", b, tt.backlog)
			}
		})
	}
}

// TestQueueAtRest: whatever the order in which legs end, nothing is left.
func TestQueueAtRest(t *testing.T) {
	d := dice{state: 3}
	var q queue
	var open []uint64
	now := time.Unix(1e9, 0)
	for range 5000 {
		now = now.Add(time.Millisecond)
		if len(open) == 0 || d.below(2) == 0 && len(open) < 100 {
			open = append(open, q.push(now, time.Duration(d.below(1000))))
			continue
		}
		i := d.below(len(open))
		if q.end(now, open[i]) < 0 {
			t.Fatalf("leg %d is not there", open[i])
		}
		open = append(open[:i], open[i+1:]...)
		if b := q.backlog(now); b < 0 {
			t.Fatalf("backlog = %v", b)
		}
	}
	for _, ticket := range open {
		q.end(now, ticket)
	}
	if q.open != 0 || q.work != 0 || q.first != q.next || len(q.legs) > 4096 {
		t.Errorf("at rest %d legs are open, %v of work, %d to %d in a ring of %d", q.open, q.work, q.first, q.next, len(q.legs))
	}
}

func TestKeep(t *testing.T) {
	k := keep{most: 10_000, share: 1}
	k.saw(100, 100, 60, 5000, 0)
	if got := k.blocks(); got != 4800 {
		t.Errorf("%d blocks are kept by an engine that was found without one of 5000, want 4800", got)
	}
	for range 10_000 {
		k.saw(100, 100, 95, 4800, 0) // as exact as it is
	}
	if got := k.blocks(); got != 10_000 {
		t.Errorf("%d blocks are kept by an engine that always had them, want all", got)
	}
	for range 10_000 {
		k.saw(100, 100, 0, 10_000, 0)
	}
	if got := k.blocks(); got != 64 {
		t.Errorf("%d blocks are noted of an engine that keeps nothing, want 64", got)
	}
	for range 200 {
		k.saw(10, 10, 40, 64, 0)
	}
	if got := k.blocks(); got < 9_000 {
		t.Errorf("%d blocks are noted of an engine that has more than was believed", got)
	}
}

func TestShared(t *testing.T) {
	s := newShared(BlockBytes)
	for i := range 600 {
		s.see(chainAt(i+1, 7, 12))
	}
	if got := s.blocks(chainAt(999, 7, 30)); got != 7 {
		t.Errorf("%d blocks are shared by all, want 7", got)
	}
	for i := range 600 { // half of the prompts are of another application now
		s.see(chainAt(i+1, 7*(i%2), 12))
	}
	if got := s.blocks(chainAt(999, 7, 30)); got != 0 {
		t.Errorf("%d blocks are shared by all when half of the prompts have none of them", got)
	}
	for i := range 1000 { // the other one has taken over
		s.see(append([]uint64{4711, 4712}, chainAt(i+1, 0, 5)...))
	}
	if got := s.blocks([]uint64{4711, 4712, 5}); got != 2 {
		t.Errorf("%d blocks of the new application are shared by all, want 2", got)
	}
}

func TestChain(t *testing.T) {
	seed := [][]byte{[]byte("model")}
	long := text(1, 0, 20*BlockBytes+100)
	chain := Chain(nil, seed, [][]byte{long}, BlockBytes)
	if len(chain) != 20 {
		t.Fatalf("a prompt of 20 blocks and a bit has a chain of %d", len(chain))
	}
	if got := Chain(nil, seed, [][]byte{long[:700], nil, long[700:701], long[701:]}, BlockBytes); len(got) != 20 || got[19] != chain[19] {
		t.Error("the same prompt in pieces has another chain")
	}
	if got, want := KeyOf(chain, BlockBytes), Take(seed, [][]byte{long}).Key; got != want {
		t.Errorf("KeyOf = %x, Take's key is %x", got, want)
	}
	if got, want := KeyOf(chain[:3], BlockBytes), Take(seed, [][]byte{long[:3*BlockBytes]}).Key; got != want {
		t.Errorf("KeyOf of a short prompt = %x, Take's key is %x", got, want)
	}
	if KeyOf(nil, BlockBytes) != 0 || len(Chain(nil, seed, [][]byte{long[:BlockBytes-1]}, BlockBytes)) != 0 {
		t.Error("a prompt shorter than a block has affinity")
	}
	changed := append([]byte(nil), long...)
	changed[10*BlockBytes] ^= 1
	for i, h := range Chain(nil, seed, [][]byte{changed}, BlockBytes) {
		if same := h == chain[i]; same != (i < 10) {
			t.Errorf("block %d of a prompt that differs from block 10 on is the same: %t", i, same)
		}
	}
	other := Chain(nil, [][]byte{[]byte("other")}, [][]byte{long}, BlockBytes)
	if other[0] == chain[0] {
		t.Error("two models share blocks")
	}
	if n := testing.AllocsPerRun(50, func() { chain = Chain(chain[:0], seed, [][]byte{long}, BlockBytes) }); n != 0 {
		t.Errorf("Chain makes %v allocations, want 0", n)
	}
}

// TestPaceFades: a worker that is slow gets no legs while others are free, and
// is tried again all the same.
func TestPaceFades(t *testing.T) {
	a := learnt(2)
	slow := a.pools[0].Prefill[0]
	b := a.c.book(slow)
	for range 20 {
		b.pace.learn(time.Second, 3*time.Second)
	}
	for i := range 2000 {
		chain := chainAt(50_000+i, 0, 40)
		c := a.ask(chain)
		if a.pools[0].Prefill[c.Prefill] == slow {
			return
		}
		a.end(c, chain)
	}
	t.Error("it has not been tried again")
}

package workers

import "slices"

// modelClaim is a request at an engine.
type modelClaim struct {
	q      *modelRequest
	from   *modelRouter
	engine int
	got    int
	blocks int
	ready  float64 // when its prompt's KV has come
	again  bool    // it was preempted
}

// A modelEngine has blocks and gives them as vLLM does: the prompt's when a
// request is let in, first come, first served, one more as the answer grows; if
// there is none, the request that was let in last loses all of its own.
type modelEngine struct {
	blocks, block int
	free          int
	in            []*modelClaim // have blocks, in the order in which they were let in
	waiting       []*modelClaim
	next          float64
	preempted     int
}

func (e *modelEngine) need(tokens int) int { return (tokens + e.block - 1) / e.block }

func (e *modelEngine) used() float64 { return float64((e.blocks - e.free) * e.block) }

func (e *modelEngine) admit() {
	for len(e.waiting) > 0 {
		c := e.waiting[0]
		need := e.need(c.q.prompt + c.got)
		if need > e.free {
			return
		}
		e.free -= need
		c.blocks = need
		e.in = append(e.in, c)
		e.waiting = e.waiting[1:]
	}
}

// step gives everyone a token. It returns those that have begun and those that
// have ended with it.
func (e *modelEngine) step(now float64) (begun, ended []*modelClaim) {
	e.admit()
	for i := 0; i < len(e.in); i++ {
		c := e.in[i]
		if now < c.ready {
			continue
		}
		for e.need(c.q.prompt+c.got+1) > c.blocks && e.free == 0 {
			victim := e.in[len(e.in)-1]
			e.in = e.in[:len(e.in)-1]
			e.free += victim.blocks
			victim.blocks, victim.again = 0, true
			victim.ready = now + float64(victim.q.prompt+victim.got)/10e3
			e.waiting = append([]*modelClaim{victim}, e.waiting...)
			e.preempted++
			if victim == c {
				return begun, ended
			}
		}
		if e.need(c.q.prompt+c.got+1) > c.blocks {
			c.blocks++
			e.free--
		}
		if c.got++; c.got == 1 {
			begun = append(begun, c)
		}
		if c.got >= c.q.answer {
			ended = append(ended, c)
		}
	}
	for _, c := range ended {
		e.in = slices.DeleteFunc(e.in, func(o *modelClaim) bool { return o == c })
		e.free += c.blocks
	}
	return begun, ended
}

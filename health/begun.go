package health

import (
	"time"

	"github.com/sony/gobreaker/v2"

	"pdrouter/workers"
)

// Began implements workers.Judge. A first token shows that the hand-off has
// worked and that decode computes: a trial of decode's breaker, or of the
// pair's, has succeeded. Its stream may last for an hour, and nobody else could
// try meanwhile.
func (j *Judge) Began(p *workers.Permit) {
	j.ward(p.Decode).lives(time.Now())
	if p.Done[ofDecode] != nil {
		began(p, ofDecode, j.ward(p.Decode).breaker)
	}
	if p.Done[ofPair] == nil {
		return
	}
	if both := j.ward(p.Prefill).pairOf(p.Decode); both != nil {
		began(p, ofPair, both.breaker)
	}
}

// began ends a trial well, though its request goes on.
func began(p *workers.Permit, place int, b *breaker) {
	epoch, news := b.begin(passOf(p, place))
	p.Epoch[place], p.Done[place], p.Begun[place] = epoch, nil, true
	if news {
		b.out.flush()
	}
}

// begin books a trial as a success, and returns the epoch in which its request
// goes on: should that fail later, it counts as a failure of its own. With news,
// out is to be flushed.
func (b *breaker) begin(p pass) (epoch uint64, news bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if p.epoch != b.epoch {
		return p.epoch, false
	}
	v := verdict{kind: good}
	b.countLocked(v)
	b.tellTrialLocked(p.done, v)
	return b.epoch, true
}

// tellHalfOpenLocked books the failure of a request that had begun well as a
// trial, while others are being tried: one failure opens the breaker again.
func (b *breaker) tellHalfOpenLocked(v verdict) {
	b.why = "a trial that had begun well failed: " + brief(v.err)
	b.movedLocked("", gobreaker.StateHalfOpen, gobreaker.StateOpen)
	b.openLocked(v.last)
}

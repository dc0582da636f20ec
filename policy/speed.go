package policy

import "time"

// speed learns how long workers take for a prefill leg: so much for each, and so
// much for each byte of prompt that is not in the cache. It is a line through
// what was seen, of which the older counts less and less.
type speed struct {
	n, x, y, xx, xy float64
}

const (
	// speedMemory is what the weight of an observation falls by with the next
	// one: some four hundred of them count.
	speedMemory = 0.9975

	// speedLearnt is the weight of observations from which the speed counts as
	// learnt.
	speedLearnt = 8

	// What is expected where nothing was seen yet: 30 ms, and 40 kB of text,
	// some 10 000 tokens, in a second. It matters little how right that is.
	firstLeg  = 0.03
	firstByte = 1 / 40e3
)

// learn takes in that a leg with so many bytes to compute took so long.
func (s *speed) learn(bytes float64, took time.Duration) {
	y := took.Seconds()
	s.n = s.n*speedMemory + 1
	s.x = s.x*speedMemory + bytes
	s.y = s.y*speedMemory + y
	s.xx = s.xx*speedMemory + bytes*bytes
	s.xy = s.xy*speedMemory + bytes*y
}

// line returns the seconds for a leg and for each of its bytes. Neither is
// below 0, whatever was seen.
func (s *speed) line() (leg, perByte float64) {
	if s.n == 0 {
		return firstLeg, firstByte
	}
	meanX, meanY := s.x/s.n, s.y/s.n
	spread := s.xx/s.n - meanX*meanX
	if spread <= 1e-6*s.xx/s.n { // all alike: no slope to be seen
		if meanX == 0 {
			return meanY, firstByte
		}
		return 0, meanY / meanX
	}
	perByte = max((s.xy/s.n-meanX*meanY)/spread, 0)
	leg = meanY - perByte*meanX
	if leg < 0 {
		return 0, s.xy / s.xx
	}
	return leg, perByte
}

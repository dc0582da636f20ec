package workers

import "math"

// outlookSteps is how many moments an outlook has: now, and then at distances
// of which every second one is twice as far, up to 16 384 tokens. The last
// moment lasts for ever.
const outlookSteps = 22

// leastChance is the chance below which it is not reckoned with that a claim is
// still there.
const leastChance = 1e-3

// stepBegin returns how many tokens from now the moment k begins.
func stepBegin(k int) float64 {
	switch {
	case k == 0:
		return 0
	case k == outlookSteps:
		return math.Inf(1)
	case k%2 == 1:
		return float64(int(16) << (k / 2))
	default:
		return float64(int(24) << (k/2 - 1))
	}
}

// An outlook is how many tokens of KV the claims on a worker will hold, as
// running requests get one token each at every step of the engine. It is what
// makes it possible to fill an engine of which some requests will have ended
// before others have grown.
//
// Each claim is there with some chance at each of the coming moments, and takes
// what it has then. Chances are independent of one another, so their variances
// add up, and many claims need less room to spare than the sum of what each
// might need.
type outlook struct {
	mean, variance [outlookSteps]float64
	most           [outlookSteps]float64 // if all that may be there are there
}

// A course is what is known of one claim's future.
type course struct {
	prompt  float64 // tokens
	answers float64 // how many there are
	grown   float64 // tokens of each of them until now
	limit   float64 // of its tokens
	wait    float64 // steps until they begin to grow

	moments int                   // how many of the coming ones it may be there
	there   [outlookSteps]float32 // its chance to be there at each of them
}

// foresee works out when c will be there.
func (c *course) foresee(l *lengths) {
	now := l.beyond(c.grown)
	c.there[0], c.moments = 1, outlookSteps
	for k := 1; k < outlookSteps; k++ {
		grown := c.grown + max(stepBegin(k)-c.wait, 0)
		there := 1.0
		if grown > c.grown {
			there = l.beyond(grown) / now
		}
		if grown >= c.limit || there < leastChance {
			c.moments = k // it has ended
			return
		}
		c.there[k] = float32(there)
	}
}

// takes returns how much c takes at a moment at most, if it is there.
func (c *course) takes(k int) float64 {
	return c.prompt + c.answers*min(c.grown+max(stepBegin(k+1)-c.wait, 0), max(c.limit, c.grown))
}

// expected returns the most tokens that c is expected to take at any moment.
func (c *course) expected() float64 {
	most := 0.0
	for k := range c.moments {
		most = max(most, float64(c.there[k])*c.takes(k))
	}
	return most
}

// add adds what a course takes, times sign.
func (o *outlook) add(c *course, sign float64) {
	for k := range c.moments {
		there, takes := float64(c.there[k]), c.takes(k)
		expected := sign * there * takes
		o.mean[k] += expected
		o.variance[k] += expected * (1 - there) * takes
		o.most[k] += sign * takes
	}
}

// peak returns the most that will be needed, with so many standard deviations
// to spare, if what others hold grows as much as what is looked at.
func (o *outlook) peak(deviations float64) float64 {
	most := 0.0
	for k := range outlookSteps {
		most = max(most, min(o.mean[k]+deviations*math.Sqrt(max(o.variance[k], 0)), o.most[k]))
	}
	return most
}

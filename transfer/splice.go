package transfer

import "slices"

// A cut takes bytes out of a body and may put others in their place.
type cut struct {
	from, to int
	prev     int    // behind the value before a removed member
	last     bool   // the removed member is its object's last
	with     []byte // what comes instead
	value    bool   // only a value is replaced, the member stays
}

// cutOf removes a member and the comma behind it. If the members up to the end
// of an object are all removed, join takes the comma before them instead.
func cutOf(p *place) cut {
	return cut{from: int(p.key), to: int(p.next), prev: int(p.prev), last: p.last}
}

// setTo replaces a member's value.
func setTo(p *place, with string) cut {
	return cut{from: int(p.start), to: int(p.end), with: []byte(with), value: true}
}

// A Leg is the request of one leg.
type Leg struct {
	Path      string
	Body      [][]byte // slices of the client's body and of ours, in order
	Length    int64    // of the whole Body, in bytes
	HandedOff bool     // a decode leg takes blocks over; false: it computes the prompt again
	Merged    bool     // a decode leg whose JSON answer must go through Merge
}

// fewCuts is the number of cuts that most legs do with, so that they take no
// memory of their own.
const fewCuts = 8

// leg writes a leg's body: the client's with the cuts made, and with tail behind
// the client's own members. tail is a comma and one or more members, or empty.
func (r *Request) leg(cuts []cut, tail []byte) Leg {
	for i := range r.drops {
		cuts = append(cuts, cutOf(&r.drops[i]))
	}
	cuts = join(cuts)
	l := Leg{Path: r.endpoint.Path(), Body: make([][]byte, 0, 2*len(cuts)+3)}
	at, kept := 0, r.lastEnd > r.open
	for i := range cuts {
		c := &cuts[i]
		l.add(r.body[at:c.from])
		l.add(c.with)
		at = c.to
		if c.from == r.open && c.to == r.close {
			kept = false
		}
	}
	l.add(r.body[at:r.close])
	if len(tail) > 0 && !kept {
		tail = tail[1:]
	}
	l.add(tail)
	l.add(r.body[r.close:])
	return l
}

func (l *Leg) add(b []byte) {
	if len(b) > 0 {
		l.Body = append(l.Body, b)
		l.Length += int64(len(b))
	}
}

// join orders cuts and makes one of those that touch.
func join(cuts []cut) []cut {
	slices.SortFunc(cuts, func(a, b cut) int { return a.from - b.from })
	out := cuts[:0]
	for _, c := range cuts {
		if n := len(out); n > 0 && !c.value && !out[n-1].value && out[n-1].to == c.from {
			out[n-1].to, out[n-1].last = c.to, c.last
			continue
		}
		out = append(out, c)
	}
	for i := range out {
		if c := &out[i]; !c.value && c.last {
			c.from = c.prev
		}
	}
	return out
}

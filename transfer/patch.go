package transfer

import "errors"

// ErrUnfit reports that Merge cannot put the answers of the two legs together.
var ErrUnfit = errors.New("merge answers: the legs' answers do not fit")

// A patch changes a text at some places, which are added in any order but must
// not overlap.
type patch struct {
	base []byte
	cuts []cut
}

// set replaces base[from:to] with the parts.
func (p *patch) set(from, to int, parts ...[]byte) {
	n := 0
	for _, part := range parts {
		n += len(part)
	}
	with := make([]byte, 0, n)
	for _, part := range parts {
		with = append(with, part...)
	}
	p.cuts = append(p.cuts, cut{from: from, to: to, with: with, value: true})
}

// insert adds a member to the scanned object whose closing brace is at end-1.
func (p *patch) insert(end int, member []byte) {
	at := end - 1
	for at > 0 && (p.base[at-1] == ' ' || p.base[at-1] == '\n' || p.base[at-1] == '\r' || p.base[at-1] == '\t') {
		at--
	}
	comma := []byte(",")
	if p.base[at-1] == '{' {
		comma = nil
	}
	p.set(at, at, comma, member)
}

// apply returns the text with all changes made.
func (p *patch) apply() []byte {
	n := len(p.base)
	p.cuts = join(p.cuts)
	for i := range p.cuts {
		n += len(p.cuts[i].with)
	}
	out := make([]byte, 0, n)
	at := 0
	for i := range p.cuts {
		c := &p.cuts[i]
		out = append(append(out, p.base[at:c.from]...), c.with...)
		at = c.to
	}
	return append(out, p.base[at:]...)
}

// find returns the member of a name in the scanned object at start; nil if
// there is none, or no object.
func find(b []byte, start int, name string) *member {
	if b[start] != '{' {
		return nil
	}
	m := (&scanner{b: b}).object(start, 0)
	var buf [maxKeyLen]byte
	for m.more() {
		if string(m.name(b, &buf)) == name {
			m.finish()
			found := m.member
			return &found
		}
	}
	return nil
}

// pairs calls merge for each two elements that stand at the same place in two
// scanned arrays, which must be equally long.
func pairs(a []byte, aStart int, b []byte, bStart int, merge func(aAt, bAt int) error) error {
	if a[aStart] != '[' || b[bStart] != '[' {
		return ErrUnfit
	}
	ea, eb := (&scanner{b: a}).array(aStart, 0), (&scanner{b: b}).array(bStart, 0)
	for {
		moreA, moreB := ea.more(), eb.more()
		if moreA != moreB {
			return ErrUnfit
		}
		if !moreA {
			return nil
		}
		if err := merge(ea.start, eb.start); err != nil {
			return err
		}
	}
}

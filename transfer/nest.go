package transfer

// value scans any value that begins at i inside depth arrays and objects.
func (s *scanner) value(i, depth int) int {
	if s.has(i) && (s.b[i] == '{' || s.b[i] == '[') {
		return s.nest(i, depth)
	}
	return s.scalar(i)
}

// nest scans an array or object, keeping one bit for each open bracket.
func (s *scanner) nest(i, depth int) int {
	var objects [maxDepth/64 + 1]uint64 // bit d is set if level d is an object
	for d := depth; ; {
		if !s.has(i) {
			return s.fail(i, whyEnd)
		}
		switch c := s.b[i]; c {
		case '{', '[':
			if d >= maxDepth {
				return s.fail(i, whyDepth)
			}
			setBit(&objects, d, c == '{')
			d++
			i = s.space(i + 1)
			if s.has(i) && s.b[i] == c+2 { // empty: '}' is '{'+2, ']' is '['+2
				i, d = i+1, d-1
				break
			}
			if i = s.first(i, c == '{'); i < 0 {
				return -1
			}
			continue
		default:
			if i = s.scalar(i); i < 0 {
				return -1
			}
		}
		// Behind a value: close what ends here, then go to the next value.
		for {
			if d == depth {
				return i
			}
			object := bit(&objects, d-1)
			var more bool
			if i, more = s.after(i, object); i < 0 {
				return -1
			}
			if more {
				break
			}
			d--
		}
	}
}

// first goes to the first value of an array or object that is not empty.
func (s *scanner) first(i int, object bool) int {
	if object {
		return s.name(i)
	}
	return s.integers(i)
}

// after goes on behind a value of an array or object: to its next value (more),
// or behind its closing bracket.
func (s *scanner) after(i int, object bool) (next int, more bool) {
	i = s.space(i)
	if !s.has(i) {
		return s.fail(i, whyEnd), false
	}
	switch c := s.b[i]; {
	case c == ',' && object:
		return s.name(s.space(i + 1)), true
	case c == ',':
		return s.integers(s.space(i + 1)), true
	case c == '}' && object, c == ']' && !object:
		return i + 1, false
	}
	return s.fail(i, whyComma), false
}

// name scans a key and its colon and goes to the value.
func (s *scanner) name(i int) int {
	if !s.has(i) || s.b[i] != '"' {
		return s.fail(i, whyKey)
	}
	if i = s.str(i); i < 0 {
		return -1
	}
	if i = s.space(i); !s.has(i) || s.b[i] != ':' {
		return s.fail(i, whyColon)
	}
	return s.space(i + 1)
}

// integers goes over a run of plain integers with commas between them, which is
// what a prompt of token ids is made of, and returns the offset of the first
// value that it leaves to the general way. It judges eight bytes at once, each
// by what it is and what the byte before is: how long a number is then costs no
// branch.
func (s *scanner) integers(i int) int {
	if !s.has(i) || s.b[i]-'0' > 9 {
		return i
	}
	start := i
	var digits, lead uint64 // of the eight bytes before: digits, zeros that begin a number
	for ; i+8 <= len(s.b); i += 8 {
		x := word(s.b[i:])
		digit := (x + ones*(0x80-'0')) &^ (x + ones*(0x80-'9'-1)) & highs
		comma, space, zero := equal(x, ','), equal(x, ' '), equal(x, '0')
		inside := digit<<8 | digits>>56 // the bytes behind a digit
		bad := highs&^(digit|comma|space) | comma&^inside | space&inside | x&highs
		zero &^= inside
		if bad|digit&(zero<<8|lead>>56) != 0 {
			break
		}
		digits, lead = digit, zero
	}
	for i > start && s.b[i-1]-'0' <= 9 {
		i--
	}
	return s.space(i)
}

// equal sets the high bit of each byte of x that is c, if all bytes are ASCII.
func equal(x uint64, c byte) uint64 {
	return ^((x ^ ones*uint64(c)) + ones*0x7f) & highs
}

func setBit(set *[maxDepth/64 + 1]uint64, i int, to bool) {
	mask := uint64(1) << (i % 64)
	if to {
		set[i/64] |= mask
	} else {
		set[i/64] &^= mask
	}
}

func bit(set *[maxDepth/64 + 1]uint64, i int) bool {
	return set[i/64]>>(i%64)&1 == 1
}

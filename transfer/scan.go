package transfer

import (
	"encoding/binary"
	"math/bits"
	"unicode/utf8"
)

// maxDepth is how deep arrays and objects may nest, the outermost counted. No
// tool schema comes near it; engines that recurse die not far above it.
const maxDepth = 1000

// A scanner validates JSON (RFC 8259, strict) in UTF-8. Its methods take the
// offset where something begins and return the offset behind its end, or -1
// after noting what is wrong. It neither recurses nor allocates.
type scanner struct {
	b    []byte // what there is so far
	more Source // of the rest; nil if b is all
	at   int    // offset of the first fault
	why  string // what is wrong there; "" as long as nothing is
	long *longStrings
}

// longStrings are where the first long strings of a text are, so that who goes
// over it again need not look for their ends.
type longStrings struct {
	at [32]span
	n  int
}

// longFrom is the length from which a string is long.
const longFrom = 256

func (l *longStrings) note(start, end int) {
	if l != nil && l.n < len(l.at) {
		l.at[l.n] = span{int32(start), int32(end)}
		l.n++
	}
}

// What can be wrong with a text.
const (
	whyEnd     = "it ends too early"
	whyValue   = "a value is missing or misspelt"
	whyKey     = "a key in double quotes is missing"
	whyColon   = "a colon is missing after a key"
	whyComma   = "a comma or a closing bracket is missing"
	whyNumber  = "a number is misspelt"
	whyEscape  = "an escape in a string is misspelt"
	whyControl = "a string contains a raw control character"
	whyUTF8    = "a string is not valid UTF-8"
	whyDepth   = "it nests deeper than 1000 levels"
	whyMore    = "there is more after the first value"
)

func (s *scanner) fail(at int, why string) int {
	if at >= len(s.b) {
		at, why = len(s.b), whyEnd
	}
	s.at, s.why = at, why
	return -1
}

// space skips whitespace.
func (s *scanner) space(i int) int {
	for s.has(i) {
		if c := s.b[i]; c > ' ' || c != ' ' && c != '\n' && c != '\r' && c != '\t' {
			break
		}
		i++
	}
	return i
}

// end accepts nothing but whitespace up to the end of the text.
func (s *scanner) end(i int) bool {
	if i = s.space(i); s.has(i) {
		s.fail(i, whyMore)
		return false
	}
	return true
}

// Eight copies of a byte, for looking at eight bytes at a time.
const (
	ones  = 0x0101010101010101
	highs = 0x8080808080808080
)

// word reads eight bytes, the first into the lowest bits.
func word(b []byte) uint64 { return binary.LittleEndian.Uint64(b) }

// specials sets the high bit of each byte that cannot stand for itself inside a
// string: a quote, a backslash, a control character. Only the lowest set bit of
// those in highs is sure: a borrow may set further ones above it.
//
// With its second bit turned, a quote is a space and a space is not, so that
// one comparison finds quotes and control characters.
func specials(x uint64) uint64 {
	return (((x ^ ones*2) - ones*(' '+1)) | ((x ^ ones*'\\') - ones)) &^ x
}

// str scans a string whose opening quote is at i.
func (s *scanner) str(i int) int {
	first, start := i, i+1
	var seen uint64 // all bytes of the string or-ed, to know if any is not ASCII
	for i = start; ; {
		var bytes uint64
		i, bytes = s.ordinary(i)
		seen |= bytes
		if i >= len(s.b) {
			if start = s.piece(start, i, seen); start < 0 {
				return -1
			}
			continue
		}
		switch s.b[i] {
		case '"':
			if seen&highs != 0 {
				if bad := s.utf8(start, i); bad < i {
					return s.fail(bad, whyUTF8)
				}
			}
			if i-first >= longFrom {
				s.long.note(first, i+1)
			}
			return i + 1
		case '\\':
			for s.has(i) && s.b[i] == '\\' { // one comes seldom alone in text written as ASCII
				if i = s.escape(i); i < 0 {
					return s.earlier(start, seen)
				}
			}
		default:
			s.fail(i, whyControl)
			return s.earlier(start, seen)
		}
	}
}

// piece judges what has come of a string, now that it is in the processor's
// cache, and reads on. It returns from where on the rest is to be judged: a
// character may have come in half.
func (s *scanner) piece(start, i int, seen uint64) int {
	if seen&highs != 0 {
		start = s.utf8(start, i)
	}
	switch {
	case seen&highs != 0 && i-start >= utf8.UTFMax:
		return s.fail(start, whyUTF8)
	case !s.has(i):
		return s.fail(i, whyEnd)
	}
	return start
}

// earlier notes what is wrong in a string before the fault that was noted, if
// anything is, so that the same fault is told in whatever pieces a string came.
func (s *scanner) earlier(start int, seen uint64) int {
	if seen&highs != 0 {
		if bad := s.utf8(start, s.at); bad < s.at {
			return s.fail(bad, whyUTF8)
		}
	}
	return -1
}

// ordinary goes over what stands for itself in a string and over escapes of one
// letter, as far as they come in windows, up to anything else or the end. It also
// returns the bytes that it looked at or-ed, as far as their high bits go.
func (s *scanner) ordinary(i int) (next int, seen uint64) {
	b := s.b[i:]
	for len(b) >= window {
		n, special, slash, beyondASCII := skipPlain(b)
		if beyondASCII {
			seen = highs
		}
		if b = b[n:]; special == 0 {
			break
		}
		n = inside(b[:window], special, slash)
		if b = b[n:]; n < window {
			return len(s.b) - len(b), seen
		}
	}
	for ; len(b) >= 8; b = b[8:] {
		x := word(b)
		if found := specials(x) & highs; found != 0 {
			n := bits.TrailingZeros64(found) &^ 7
			return len(s.b) - len(b) + n/8, seen | x&(1<<n-1)
		}
		seen |= x
	}
	for i = len(s.b) - len(b); i < len(s.b); i++ {
		c := s.b[i]
		if c == '"' || c == '\\' || c < ' ' {
			break
		}
		seen |= uint64(c)
	}
	return i, seen
}

// escape scans an escape whose backslash is at i. Surrogates need not be
// paired and NUL is allowed: engines read both, and it is not ours to mend.
func (s *scanner) escape(i int) int {
	if !s.has(i + 1) {
		return s.fail(i+1, whyEnd)
	}
	switch s.b[i+1] {
	case '"', '\\', '/', 'b', 'f', 'n', 'r', 't':
		return i + 2
	case 'u':
		for j := i + 2; j < i+6; j++ {
			if !s.has(j) || hexDigit(s.b[j]) < 0 {
				return s.fail(j, whyEscape)
			}
		}
		return i + 6
	}
	return s.fail(i, whyEscape)
}

// utf8 returns the offset of the first byte of s.b[i:end] that is not UTF-8, or
// end. Characters of three bytes, which Chinese, Japanese and Korean are written
// in, are judged here, because the library takes twice as long for them.
func (s *scanner) utf8(i, end int) int {
	for i < end {
		if i+8 <= len(s.b) {
			x := word(s.b[i:])
			// E0 with less than A0 behind it is too long, ED with more a surrogate.
			if y := x & 0x200f; x&0xc0c0f0 == 0x8080e0 && y != 0x0000 && y != 0x200d {
				i += 3
				continue
			}
			if ascii := bits.TrailingZeros64(x&highs) / 8; ascii > 0 {
				i += ascii // perhaps beyond end, where nothing but a quote is
				continue
			}
		}
		r, n := utf8.DecodeRune(s.b[i:end])
		if r == utf8.RuneError && n <= 1 {
			return i
		}
		i += n
	}
	return end
}

// hexDigit returns the value of a hexadecimal digit, or -1.
func hexDigit(c byte) int {
	switch {
	case '0' <= c && c <= '9':
		return int(c - '0')
	case 'a' <= c|0x20 && c|0x20 <= 'f':
		return int(c|0x20-'a') + 10
	}
	return -1
}

// number scans a number.
func (s *scanner) number(i int) int {
	if s.b[i] == '-' {
		i++
	}
	if s.has(i) && s.b[i] == '0' {
		i++
	} else if i = s.digits(i); i < 0 {
		return -1
	}
	if s.has(i) && s.b[i] == '.' {
		if i = s.digits(i + 1); i < 0 {
			return -1
		}
	}
	if s.has(i) && s.b[i]|0x20 == 'e' {
		i++
		if s.has(i) && (s.b[i] == '+' || s.b[i] == '-') {
			i++
		}
		return s.digits(i)
	}
	return i
}

// digits scans one or more digits.
func (s *scanner) digits(i int) int {
	start := i
	for s.has(i) && s.b[i]-'0' <= 9 {
		i++
	}
	if i == start {
		return s.fail(i, whyNumber)
	}
	return i
}

// scalar scans a value that is neither an array nor an object.
func (s *scanner) scalar(i int) int {
	if !s.has(i) {
		return s.fail(i, whyEnd)
	}
	switch c := s.b[i]; {
	case c == '"':
		return s.str(i)
	case c == '-' || c-'0' <= 9:
		return s.number(i)
	case c == 't':
		return s.word(i, "true")
	case c == 'f':
		return s.word(i, "false")
	case c == 'n':
		return s.word(i, "null")
	}
	return s.fail(i, whyValue)
}

func (s *scanner) word(i int, w string) int {
	for k := range len(w) {
		if !s.has(i+k) || s.b[i+k] != w[k] {
			return s.fail(i+k, whyValue)
		}
	}
	return i + len(w)
}

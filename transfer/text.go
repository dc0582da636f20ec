package transfer

import (
	"unicode/utf16"
	"unicode/utf8"
)

// unescape decodes the first character of the inside of a scanned string. Half
// a surrogate pair comes out as U+FFFD, as in encoding/json.
func unescape(raw []byte) (r rune, size int) {
	if raw[0] != '\\' {
		return utf8.DecodeRune(raw)
	}
	switch c := raw[1]; c {
	case 'b':
		return '\b', 2
	case 'f':
		return '\f', 2
	case 'n':
		return '\n', 2
	case 'r':
		return '\r', 2
	case 't':
		return '\t', 2
	case 'u':
	default:
		return rune(c), 2
	}
	r = hex4(raw[2:])
	if !utf16.IsSurrogate(r) {
		return r, 6
	}
	if len(raw) >= 12 && raw[6] == '\\' && raw[7] == 'u' {
		if pair := utf16.DecodeRune(r, hex4(raw[8:])); pair != utf8.RuneError {
			return pair, 12
		}
	}
	return utf8.RuneError, 6
}

func hex4(b []byte) rune {
	return rune(hexDigit(b[0])<<12 | hexDigit(b[1])<<8 | hexDigit(b[2])<<4 | hexDigit(b[3]))
}

// text returns the string that a scanned value is, or "" if it is no string.
func text(value []byte) string {
	if len(value) < 2 || value[0] != '"' {
		return ""
	}
	raw := value[1 : len(value)-1]
	out := make([]byte, 0, len(raw))
	for i := 0; i < len(raw); {
		r, size := unescape(raw[i:])
		out = utf8.AppendRune(out, r)
		i += size
	}
	return string(out)
}

// isText tells whether a scanned value is the string want, which is ASCII.
func isText(value []byte, want string) bool {
	if len(value) < 2 || value[0] != '"' {
		return false
	}
	raw := value[1 : len(value)-1]
	if string(raw) == want {
		return true
	}
	if len(raw) <= len(want) {
		return false
	}
	i, k := 0, 0
	for ; i < len(raw) && k < len(want); k++ {
		r, size := unescape(raw[i:])
		if r != rune(want[k]) {
			return false
		}
		i += size
	}
	return i == len(raw) && k == len(want)
}

// integer returns the number that a scanned value is, if it is spelt as a plain
// integer and fits.
func integer(value []byte) (n int64, ok bool) {
	digits := value
	if len(digits) > 0 && digits[0] == '-' {
		digits = digits[1:]
	}
	if len(digits) == 0 || len(digits) > 18 {
		return 0, false
	}
	for _, c := range digits {
		if c-'0' > 9 {
			return 0, false
		}
		n = n*10 + int64(c-'0')
	}
	if len(digits) < len(value) {
		n = -n
	}
	return n, true
}

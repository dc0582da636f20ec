package transfer

import "bytes"

// NextEvent looks for the end of the first event in buf, which begins with it.
// length is that event's, the blank line that ends it included, or 0 if the
// event is not whole yet; then resume is what to pass as from when more has
// been read into buf, so that no byte is searched twice. A new event starts
// with from 0.
//
// Lines may end in LF, CRLF or CR. A blank line by itself is an event too, so
// that events put together are always the stream. Where an event ends does not
// depend on how the stream was cut into reads.
func NextEvent(buf []byte, from int) (length, resume int) {
	for from < len(buf) {
		at := lineEnd(buf, from)
		if at < 0 {
			return 0, len(buf)
		}
		from = at + 1
		if buf[at] == '\n' {
			if at > 0 && buf[at-1] == '\r' && !blank(buf, at-1) {
				continue // the second half of a line's CRLF
			}
			if blank(buf, at) {
				return at + 1, 0
			}
			continue
		}
		if !blank(buf, at) {
			if from < len(buf) && buf[from] == '\n' {
				from++
			}
			continue
		}
		// A blank line that ends in CR. A LF behind it is its second half, but
		// not where the line before ended in a bare CR: such a stream has no
		// CRLF, and there is nothing to wait for.
		switch {
		case at > 0 && buf[at-1] == '\r':
			return at + 1, 0
		case from == len(buf):
			return 0, at
		case buf[from] == '\n':
			return at + 2, 0
		}
		return at + 1, 0
	}
	return 0, from
}

// blank tells whether the line whose end is at i is empty.
func blank(buf []byte, i int) bool {
	return i == 0 || buf[i-1] == '\n' || buf[i-1] == '\r'
}

// lineEnd returns the offset of the first CR or LF from i on, or -1.
func lineEnd(buf []byte, i int) int {
	line := buf[i:]
	at := bytes.IndexByte(line, '\n')
	if at >= 0 {
		line = line[:at]
	}
	if cr := bytes.IndexByte(line, '\r'); cr >= 0 {
		at = cr
	}
	if at < 0 {
		return -1
	}
	return i + at
}

// payload returns what the data lines of an event say, nil if it has none. data
// that is a payload already comes back as it is.
func payload(data []byte) []byte {
	if len(data) > 0 && (data[0] == '{' || data[0] == '[') {
		return data
	}
	var found []byte
	for several := false; len(data) > 0; {
		line := data
		if end := lineEnd(data, 0); end >= 0 {
			line, data = data[:end], data[end+1:]
		} else {
			data = nil
		}
		value, ok := dataLine(line)
		switch {
		case !ok:
		case found == nil:
			found = value
		case !several:
			several = true
			found = append(append(append(make([]byte, 0, 2*len(found)), found...), '\n'), value...)
		default:
			found = append(append(found, '\n'), value...)
		}
	}
	return found
}

func dataLine(line []byte) (value []byte, ok bool) {
	value, ok = bytes.CutPrefix(line, []byte("data"))
	if !ok || len(value) > 0 && value[0] != ':' {
		return nil, false
	}
	value = bytes.TrimPrefix(value, []byte(":"))
	return bytes.TrimPrefix(value, []byte(" ")), true
}

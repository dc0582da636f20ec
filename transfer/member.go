package transfer

// A member is one key and value of an object, as offsets into the text.
type member struct {
	prev       int  // behind the value before, or behind the opening brace
	key        int  // the key's opening quote
	keyEnd     int  // behind the key's closing quote
	start, end int  // the value; end is 0 as long as it is not scanned
	next       int  // the next key, or the closing brace
	last       bool // next is the closing brace
}

// members goes over the members of one object:
//
//	m := s.object(i, depth)
//	for m.more() { ... }
//
// A value is scanned once: by value, by finish, or by the next call of more; or
// by whoever goes over it with an iterator of its own and then sets end to
// where that came out. Afterwards behind is the offset behind the closing
// brace, or -1 after a fault.
type members struct {
	member
	s      *scanner
	depth  int // of the values
	done   bool
	behind int
}

// object begins with the object whose opening brace is at i, inside depth
// arrays and objects.
func (s *scanner) object(i, depth int) members {
	return members{s: s, depth: depth + 1, member: member{end: i + 1, next: s.space(i + 1)}}
}

// more goes to the next member, up to its value. It returns false behind the
// last one and after a fault.
func (m *members) more() bool {
	s := m.s
	switch {
	case m.keyEnd == 0:
		m.last = s.has(m.next) && s.b[m.next] == '}'
	case !m.finish():
		return false
	}
	if m.last {
		m.behind = m.next + 1
		return false
	}
	value := s.name(m.next)
	if value < 0 {
		return m.stop()
	}
	m.prev, m.key, m.keyEnd = m.end, m.next, keyEnd(s.b, value)
	m.start, m.end, m.done = value, 0, false
	return true
}

// finish scans the value, if nobody has, and what is behind it, so that all of
// the member is known. It returns false after a fault.
func (m *members) finish() bool {
	s := m.s
	if m.done || m.behind < 0 {
		return m.done
	}
	if m.end == 0 {
		m.end = s.value(m.start, m.depth)
	}
	if m.end < 0 {
		return m.stop()
	}
	i := s.space(m.end)
	switch {
	case s.has(i) && s.b[i] == ',':
		m.next = s.space(i + 1)
	case s.has(i) && s.b[i] == '}':
		m.next, m.last = i, true
	default:
		s.fail(i, whyComma)
		return m.stop()
	}
	m.done = true
	return true
}

// value returns the value, and null after a fault.
func (m *members) value() []byte {
	if m.end == 0 {
		m.end = m.s.value(m.start, m.depth)
	}
	if m.end < 0 {
		m.stop()
		return []byte("null")
	}
	return m.s.b[m.start:m.end]
}

// begins tells whether the value begins with c, which need not be scanned yet.
func (m *members) begins(c byte) bool {
	return m.s.has(m.start) && m.s.b[m.start] == c
}

func (m *members) stop() bool {
	m.done, m.behind = false, -1
	return false
}

// keyEnd finds the closing quote before the colon before the value.
func keyEnd(b []byte, value int) int {
	i := value - 1
	for b[i] != ':' {
		i--
	}
	for i--; b[i] != '"'; i-- {
	}
	return i + 1
}

// elements goes over the elements of one array, like members.
type elements struct {
	s          *scanner
	depth      int // of the elements
	start, end int // the element; end is 0 as long as it is not scanned
	next       int // the first element, before it is begun
	behind     int
}

// array begins with the array whose opening bracket is at i, inside depth
// arrays and objects.
func (s *scanner) array(i, depth int) elements {
	return elements{s: s, depth: depth + 1, next: s.space(i + 1)}
}

// more goes to the next element. It returns false behind the last one and after
// a fault.
func (e *elements) more() bool {
	s := e.s
	if e.behind < 0 {
		return false
	}
	if e.start == 0 {
		if s.has(e.next) && s.b[e.next] == ']' {
			e.behind = e.next + 1
			return false
		}
		e.start = e.next
		return true
	}
	if e.value(); e.end < 0 {
		e.behind = -1
		return false
	}
	i := s.space(e.end)
	switch {
	case s.has(i) && s.b[i] == ',':
		e.start, e.end = s.space(i+1), 0
		return true
	case s.has(i) && s.b[i] == ']':
		e.behind = i + 1
	default:
		e.behind = s.fail(i, whyComma)
	}
	return false
}

// begins tells whether the element begins with c, which need not be scanned yet.
func (e *elements) begins(c byte) bool {
	return e.s.has(e.start) && e.s.b[e.start] == c
}

// value returns the element, and null after a fault.
func (e *elements) value() []byte {
	if e.end == 0 {
		e.end = e.s.value(e.start, e.depth)
	}
	if e.end < 0 {
		return []byte("null")
	}
	return e.s.b[e.start:e.end]
}

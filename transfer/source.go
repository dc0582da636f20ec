package transfer

// A Source gives a text that is still coming.
type Source interface {
	// More waits for the next piece and returns the text from its beginning:
	// longer than the last time, or as long if there is no more of it. It may
	// be in another place than before.
	More() []byte
}

// has tells whether there is a byte at i, and reads on for it if it must.
func (s *scanner) has(i int) bool { return i < len(s.b) || s.read(i) }

func (s *scanner) read(i int) bool {
	for i >= len(s.b) && s.more != nil {
		longer := s.more.More()
		if len(longer) == len(s.b) {
			s.more = nil
		}
		s.b = longer
	}
	return i < len(s.b)
}

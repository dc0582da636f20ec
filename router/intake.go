package router

import "io"

const (
	// firstRead is how much is made ready for a body whose length is known,
	// at first: a client that promises 200 MB and sends nothing costs no more.
	firstRead = 64 << 10

	// trusted is how long a body may be for its length to be believed once
	// firstRead of it has come. A longer one has to come in order to cost.
	trusted = 4 << 20

	// pieceRead is how much is read at once: what has been read and not been
	// looked at should fit the processor's second-level cache.
	pieceRead = 256 << 10
)

// An intake is a body on its way in. It is a transfer.Source.
type intake struct {
	h      *Handler
	most   int64 // bytes that a body may have
	src    io.Reader
	length int64 // -1 if it is not known
	held   holding
	buf    []byte // what has come
	err    error  // io.EOF when all has
}

// More implements transfer.Source.
func (b *intake) More() []byte {
	for before := len(b.buf); b.err == nil && len(b.buf) == before; {
		if b.err = b.room(); b.err == nil {
			b.err = b.read()
		}
	}
	return b.buf
}

// read reads the next piece.
func (b *intake) read() error {
	n, err := b.src.Read(b.buf[len(b.buf):min(cap(b.buf), len(b.buf)+pieceRead)])
	b.buf = b.buf[:len(b.buf)+n]
	if int64(len(b.buf)) > b.most {
		return tooLarge(b.most)
	}
	return err
}

// room makes room for the next piece.
func (b *intake) room() error {
	size := int64(cap(b.buf))
	if int64(len(b.buf)) < size {
		return nil
	}
	bigger := b.next(size)
	if !b.held.add(bigger - size) {
		return errMemory
	}
	larger := append(b.h.memory.take(bigger), b.buf...)
	b.held.adjust(int64(cap(larger)) - bigger)
	b.h.memory.put(b.buf)
	b.buf = larger
	return nil
}

// next returns the size of the buffer that comes after a full one of size.
func (b *intake) next(size int64) int64 {
	switch {
	case size == 0 && b.length < 0:
		return 4 << 10
	case size == 0:
		return min(b.length+1, firstRead) // one more byte of room, to see the end
	}
	if bigger := grown(size, b.length); bigger < b.most {
		return bigger
	}
	return b.most + 1
}

// grown returns the size of the buffer that comes after a full one of size, for
// a body that is said to have that length.
func grown(size, length int64) int64 {
	switch {
	case length < size:
		return 2 * size
	case length < trusted:
		return length + 1
	default:
		return min(2*size, length+1)
	}
}

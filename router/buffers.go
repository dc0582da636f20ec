package router

import "sync"

// buffers are memory that is free at this moment. Getting a large buffer anew
// costs more than filling it: it is cleared, and the garbage collector comes each
// time a few of them are used up. What is not used again soon goes at the second
// garbage collection.
type buffers struct {
	least, most int64     // capacities that are kept, in bytes
	pool        sync.Pool // of *[]byte
}

// take returns an empty buffer of at least that capacity.
func (b *buffers) take(size int64) []byte {
	if size > b.most {
		return make([]byte, 0, size)
	}
	if p, ok := b.pool.Get().(*[]byte); ok {
		if int64(cap(*p)) >= size {
			return (*p)[:0]
		}
		b.pool.Put(p)
	}
	return make([]byte, 0, max(size, b.least))
}

// put gives a buffer back. Nobody may use it any more.
func (b *buffers) put(p []byte) {
	if n := int64(cap(p)); b.least <= n && n <= b.most {
		b.pool.Put(&p)
	}
}

// extend appends more to p, and moves it to a larger buffer if it must.
func (b *buffers) extend(p, more []byte) []byte {
	if n := len(p) + len(more); n > cap(p) {
		p = b.move(p, max(n, 2*cap(p)))
	}
	return append(p, more...)
}

// move moves p to a buffer of at least that capacity.
func (b *buffers) move(p []byte, size int) []byte {
	moved := append(b.take(int64(size)), p...)
	b.put(p)
	return moved
}

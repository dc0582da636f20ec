package router

import (
	"math/bits"
	"sync"
)

const (
	// leastBuffer and mostBuffer are the capacities that are used again: what the
	// shortest body takes, and the longest whose length is believed.
	leastBuffer = 1 << 10
	mostBuffer  = 5 << 20

	// bufferSizes is how many sizes there are between the two: four for each
	// doubling, so that a buffer is at most a quarter larger than was asked for.
	bufferSizes = 50
)

// buffers are memory that is free at this moment. Getting a large buffer anew
// costs more than filling it: it is cleared, and the garbage collector comes each
// time a few of them are used up. Those of one size lie together, so that whoever
// asks is not given what is too small for it. What is not used again soon goes at
// the second garbage collection.
type buffers [bufferSizes]sync.Pool // of *[]byte

// size returns which of the sizes is the least that has room for n bytes, and how
// much it has.
func (*buffers) size(n int) (which, capacity int) {
	n = max(n, leastBuffer)
	doubling := bits.Len(uint(n - 1))
	quarter := (n - 1) >> (doubling - 3) // 4 to 7
	const first = 4*10 + 7               // of leastBuffer
	return 4*doubling + quarter - first, (quarter + 1) << (doubling - 3)
}

// take returns an empty buffer of at least that capacity.
func (b *buffers) take(n int64) []byte {
	if n > mostBuffer {
		return make([]byte, 0, n)
	}
	which, capacity := b.size(int(n))
	if p, ok := b[which].Get().(*[]byte); ok {
		return (*p)[:0]
	}
	return make([]byte, 0, capacity)
}

// put gives a buffer back. Nobody may use it any more.
func (b *buffers) put(p []byte) {
	if n := cap(p); leastBuffer <= n && n <= mostBuffer {
		if which, capacity := b.size(n); capacity == n {
			b[which].Put(&p)
		}
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

package router

import "testing"

// Whoever asks for a size gets what was given back of it, whatever sizes others
// gave back meanwhile.
func TestBuffersOfEachSize(t *testing.T) {
	var b buffers
	for n := 1; n <= mostBuffer; n += 1 + n/3 {
		which, capacity := b.size(n)
		switch {
		case which < 0 || which >= bufferSizes:
			t.Fatalf("%d bytes: size %d of %d", n, which, bufferSizes)
		case capacity < n:
			t.Fatalf("%d bytes: room for %d", n, capacity)
		case n > leastBuffer && capacity > n+n/4+1:
			t.Fatalf("%d bytes: room for %d, more than a quarter too much", n, capacity)
		}
		if again, same := b.size(capacity); again != which || same != capacity {
			t.Fatalf("room for %d bytes is of size %d and given back as size %d, of %d", capacity, which, again, same)
		}
	}
	if last, capacity := b.size(mostBuffer); last != bufferSizes-1 || capacity != mostBuffer {
		t.Fatalf("the largest is size %d of %d bytes", last, capacity)
	}
}

func TestBuffersTakeAndPut(t *testing.T) {
	var b buffers
	for _, n := range []int64{0, 1, 1100, 64 << 10, 1<<20 + 1, mostBuffer, mostBuffer + 1} {
		p := b.take(n)
		if len(p) != 0 || int64(cap(p)) < n {
			t.Fatalf("take(%d): %d of %d bytes", n, len(p), cap(p))
		}
		b.put(p)
	}
	b.put(nil)
	b.put(make([]byte, 0, 1025)) // no size of ours
	if p := b.take(1025); cap(p) != 1280 {
		t.Fatalf("take(1025): %d bytes", cap(p))
	}
	grown := b.extend(b.extend(nil, []byte("one ")), make([]byte, 4<<10))
	if string(grown[:4]) != "one " || len(grown) != 4+4<<10 {
		t.Fatalf("grown to %d bytes, %q", len(grown), grown[:4])
	}
}

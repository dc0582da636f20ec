package policy

import "runtime"

// copyPiece is how many blocks are copied under a held's lock at a time. They
// lie scattered in memory: a piece takes 1 to 80 us.
const copyPiece = 256

// appendOldest appends all blocks to dst, the oldest first: used one by one in
// that order they make the same set. Between two pieces choices are let in;
// what they use is appended again, as the newest that it now is.
func (h *held) appendOldest(dst []uint64) []uint64 {
	h.copying.Lock()
	defer h.copying.Unlock()
	h.mu.Lock()
	h.table.Load().copied = 0
	left := 2 * h.count // more are not waited for, however fast they are used
	h.mu.Unlock()
	var piece [copyPiece]uint64
	for left > 0 {
		n := h.copyOn(piece[:min(left, copyPiece)])
		if dst = append(dst, piece[:n]...); n < copyPiece {
			break
		}
		left -= n
		runtime.Gosched() // who waits for the lock is to get it
	}
	return dst
}

// copyOn fills piece with the blocks that are newer than those copied before,
// and returns how many there are.
func (h *held) copyOn(piece []uint64) int {
	h.mu.Lock()
	defer h.mu.Unlock()
	t := h.table.Load()
	for n := range piece {
		place := t.nodes[t.copied].newer
		if place == 0 {
			return n
		}
		piece[n], t.copied = t.nodes[place].key, place
	}
	return len(piece)
}

// fill takes in what appendOldest has appended, or the newest of it if there is
// no room for all. The lock is left behind each block.
func (h *held) fill(blocks []uint64) {
	_, limit := h.size()
	blocks = blocks[max(len(blocks)-limit, 0):]
	// Here and not by growing, which would hold the lock for long; and with some
	// room, or else the next prompt would have it grow.
	t := newTable(min(len(blocks)+len(blocks)/4, limit))
	h.mu.Lock()
	if h.count == 0 && len(blocks) > leastNodes {
		h.table.Store(t)
	}
	h.mu.Unlock()
	for i := range blocks {
		h.use(blocks[i : i+1])
	}
}

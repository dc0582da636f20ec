package transfer

import (
	"crypto/rand"
	"encoding/binary"
	"encoding/hex"
	"strconv"
)

// An Attempt holds the hand-off keys of one attempt. It is minted for one
// Prefill and one Decode, and never used again: engines give the blocks of a
// token that they have seen before to whoever comes first (I2).
type Attempt struct {
	// ID names the attempt to the engines: SGLang's rid, vLLM's X-Request-Id.
	// It has a fixed width, because SGLang aborts by prefix.
	ID string

	// Rooms are where SGLang's two legs meet, one for each prompt.
	Rooms []uint64

	// BootstrapHost and BootstrapPort are where prefill's bootstrap server
	// listens, as decode reaches it. SGLang only. Port 0 is left to the engine.
	BootstrapHost string
	BootstrapPort int
}

// NewAttempt mints the ID and the rooms of an attempt at req. The caller adds
// the address of the prefill worker that it picked.
func NewAttempt(req *Request) Attempt {
	a := Attempt{Rooms: make([]uint64, max(1, req.Batch()))}
	random := make([]byte, 16+8*len(a.Rooms))
	_, _ = rand.Read(random) // never fails: the program would have crashed
	a.ID = hex.EncodeToString(random[:16])
	for i := range a.Rooms {
		a.Rooms[i] = binary.LittleEndian.Uint64(random[16+8*i:]) >> 1 // engines read an int64
	}
	return a
}

// RID returns the name of the i-th prompt of a batch, or of the only prompt.
// Whoever tells an SGLang engine to abort has to name each.
func (a Attempt) RID(req *Request, i int) string {
	if req.Batch() == 0 {
		return a.ID
	}
	n := strconv.Itoa(i)
	return a.ID + "-" + "0000"[min(len(n), 4):] + n
}

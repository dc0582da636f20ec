package workers

import (
	"encoding/binary"
	"fmt"

	"github.com/tinylib/msgp/msgp"
)

// text reads a string; nothing if there is none.
func text(b []byte) (string, error) {
	if b == nil || msgp.IsNil(b) {
		return "", nil
	}
	s, _, err := msgp.ReadStringZC(b)
	return string(s), err
}

// whole reads an integer; 0 if there is none.
func whole(b []byte) (int64, error) {
	if b == nil || msgp.IsNil(b) {
		return 0, nil
	}
	n, _, err := msgp.ReadInt64Bytes(b)
	return n, err
}

// hashes appends the hashes of an array.
func hashes(dst []uint64, b []byte) ([]uint64, error) {
	if b == nil || msgp.IsNil(b) {
		return dst, nil
	}
	count, rest, err := msgp.ReadArrayHeaderBytes(b)
	for ; err == nil && count > 0; count-- {
		var h uint64
		if h, rest, err = blockHash(rest); err == nil {
			dst = append(dst, h)
		}
	}
	return dst, err
}

// blockHash reads an engine's name for a block: 64 bits, with a sign or without, or
// the bytes of a longer hash, of which the last eight are taken, as the engines
// do that tell numbers.
func blockHash(b []byte) (h uint64, rest []byte, err error) {
	if msgp.NextType(b) == msgp.UintType {
		return msgp.ReadUint64Bytes(b)
	}
	if v, rest, err := msgp.ReadInt64Bytes(b); err == nil {
		return uint64(v), rest, nil
	}
	v, rest, err := msgp.ReadBytesZC(b)
	if err != nil {
		v, rest, err = msgp.ReadStringZC(b)
	}
	if err != nil {
		return 0, b, fmt.Errorf("a block's hash must be a number or bytes, not %v", msgp.NextType(b))
	}
	return lastEight(v), rest, nil
}

// lastEight returns the last eight bytes of v as a number.
func lastEight(v []byte) uint64 {
	var last [8]byte
	v = v[max(len(v)-len(last), 0):]
	copy(last[len(last)-len(v):], v)
	return binary.BigEndian.Uint64(last[:])
}

// tokens appends the token ids of an array. With EAGLE each is a pair, of
// which the first counts.
func tokens(dst []uint32, b []byte) ([]uint32, error) {
	if b == nil || msgp.IsNil(b) {
		return dst, nil
	}
	count, rest, err := msgp.ReadArrayHeaderBytes(b)
	for ; err == nil && count > 0; count-- {
		object := rest
		if rest, err = msgp.Skip(rest); err != nil {
			break
		}
		if msgp.NextType(object) == msgp.ArrayType {
			if _, object, err = msgp.ReadArrayHeaderBytes(object); err != nil {
				break
			}
		}
		var id int64
		if id, _, err = msgp.ReadInt64Bytes(object); err == nil {
			dst = append(dst, uint32(id))
		}
	}
	return dst, err
}

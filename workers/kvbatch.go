package workers

import (
	"encoding/binary"
	"fmt"
	"hash/fnv"
	"strings"

	"github.com/tinylib/msgp/msgp"
)

// A KVReader reads the batches that engines publish. It uses its memory again
// for each event.
//
// A batch is an array: the time, the events, the rank. An event is a map whose
// key "type" names its kind or, from older engines, an array that begins with
// that name and has the fields in a fixed order. Fields and kinds that are not
// known are passed over, so that newer engines can be read.
type KVReader struct {
	event  KVEvent
	fields kvFields
}

// kvFields are the fields of an event, as they stand in the message.
type kvFields struct {
	kind                                         string
	hashes, parent, tokens, size                 []byte
	lora, loraName, salt, extra                  []byte
	medium, group, spec, window, locality, typed []byte
}

// A KVTally is what became of a batch's events.
type KVTally struct {
	Stored, Removed uint64 // blocks
	Cleared         uint64 // times that all were dropped
	Ignored         uint64 // events of no concern: other media, other kinds
	Malformed       uint64 // events that are none
}

// Read tells of every event of a batch. Events that are malformed are counted
// and left out; it fails only if the batch as a whole is none, and then nothing
// has been told.
func (r *KVReader) Read(payload []byte, tell func(*KVEvent)) (n KVTally, err error) {
	if _, err := msgp.Skip(payload); err != nil { // from here on all of it is there
		return n, fmt.Errorf("not msgpack: %w", err)
	}
	count, rest, err := msgp.ReadArrayHeaderBytes(payload)
	if err != nil || count < 2 {
		return n, fmt.Errorf("a batch must be an array of a time and events, not %v", msgp.NextType(payload))
	}
	if rest, err = msgp.Skip(rest); err != nil {
		return n, err
	}
	events, rest, err := msgp.ReadArrayHeaderBytes(rest)
	if err != nil {
		return n, fmt.Errorf("a batch's events must be an array: %w", err)
	}
	for range events {
		var raw []byte
		if raw, rest, err = next(rest); err != nil {
			return n, err
		}
		r.one(raw, &n, tell)
	}
	return n, nil
}

// next cuts one object off b.
func next(b []byte) (object, rest []byte, err error) {
	rest, err = msgp.Skip(b)
	return b[:len(b)-len(rest)], rest, err
}

// one tells of an event.
func (r *KVReader) one(raw []byte, n *KVTally, tell func(*KVEvent)) {
	r.fields = kvFields{}
	var err error
	if msgp.NextType(raw) == msgp.MapType {
		err = r.fields.fromMap(raw)
	} else {
		err = r.fields.fromArray(raw) // or else it is no event
	}
	if err != nil || r.fields.kind == "" {
		n.Malformed++
		return
	}
	e := &r.event
	*e = KVEvent{Hashes: e.Hashes[:0], Tokens: e.Tokens[:0], Extra: e.Extra[:0]}
	switch r.fields.kind {
	case "BlockStored":
		e.Kind = KVStored
		err = r.stored()
	case "BlockRemoved":
		e.Kind = KVRemoved
		err = r.removed()
	case "AllBlocksCleared":
		e.Kind = KVCleared
	default:
		n.Ignored++
		return
	}
	switch {
	case err != nil:
		n.Malformed++
		return
	case e.Kind != KVCleared && (!r.fields.concerns() || len(e.Hashes) == 0):
		n.Ignored++
		return
	case e.Kind == KVCleared:
		n.Cleared++
	case e.Kind == KVStored:
		n.Stored += uint64(len(e.Hashes))
	case e.Kind == KVRemoved:
		n.Removed += uint64(len(e.Hashes))
	}
	tell(e)
}

// fromMap takes the fields of an event in the newer form.
func (f *kvFields) fromMap(raw []byte) error {
	count, rest, err := msgp.ReadMapHeaderBytes(raw)
	for ; err == nil && count > 0; count-- {
		var key, value []byte
		if key, rest, err = msgp.ReadMapKeyZC(rest); err != nil {
			break
		}
		if value, rest, err = next(rest); err != nil {
			break
		}
		if into := f.named(string(key)); into != nil {
			*into = value
		}
	}
	if err == nil && f.typed != nil {
		f.kind, err = text(f.typed)
	}
	return err
}

// named returns where the field of that name is kept; nil: nowhere.
func (f *kvFields) named(key string) *[]byte {
	switch key {
	case "type":
		return &f.typed
	case "block_hashes":
		return &f.hashes
	case "parent_block_hash":
		return &f.parent
	case "token_ids":
		return &f.tokens
	case "block_size":
		return &f.size
	case "lora_id":
		return &f.lora
	case "lora_name":
		return &f.loraName
	case "cache_salt":
		return &f.salt
	case "extra_keys":
		return &f.extra
	case "medium":
		return &f.medium
	case "group_idx":
		return &f.group
	case "kv_cache_spec_kind":
		return &f.spec
	case "kv_cache_spec_sliding_window":
		return &f.window
	case "locality":
		return &f.locality
	}
	return nil
}

// fromArray takes the fields of an event in the older form.
func (f *kvFields) fromArray(raw []byte) error {
	count, rest, err := msgp.ReadArrayHeaderBytes(raw)
	if err != nil || count == 0 {
		return fmt.Errorf("an event without a type")
	}
	if f.typed, rest, err = next(rest); err != nil {
		return err
	}
	if f.kind, err = text(f.typed); err != nil {
		return err
	}
	var order []*[]byte
	switch f.kind {
	case "BlockStored":
		order = []*[]byte{
			&f.hashes, &f.parent, &f.tokens, &f.size, &f.lora, &f.medium, &f.loraName,
			&f.extra, &f.group, &f.spec, &f.window, &f.locality,
		}
	case "BlockRemoved":
		order = []*[]byte{&f.hashes, &f.medium, &f.group, &f.locality}
	}
	for i := 1; i < int(count) && i <= len(order); i++ {
		if *order[i-1], rest, err = next(rest); err != nil {
			return err
		}
	}
	return nil
}

// concerns reports whether an event is about KV blocks that the engine has at
// hand for full attention. Others are copies in slower memory, or say nothing
// of whether a prompt is found.
func (f *kvFields) concerns() bool {
	if group, err := whole(f.group); f.group != nil && !msgp.IsNil(f.group) && (err != nil || group != 0) {
		return false
	}
	if f.window != nil && !msgp.IsNil(f.window) {
		return false
	}
	medium, _ := text(f.medium)
	locality, _ := text(f.locality)
	spec, _ := text(f.spec)
	for _, other := range []string{"sliding", "mamba", "chunked", "linear"} {
		if strings.Contains(spec, other) {
			return false
		}
	}
	return (medium == "" || medium == "GPU") && locality != "REMOTE"
}

// removed reads the rest of a BlockRemoved.
func (r *KVReader) removed() (err error) {
	r.event.Hashes, err = hashes(r.event.Hashes, r.fields.hashes)
	return err
}

// stored reads the rest of a BlockStored.
func (r *KVReader) stored() (err error) {
	e, f := &r.event, &r.fields
	if e.Hashes, err = hashes(e.Hashes, f.hashes); err != nil {
		return err
	}
	if e.Root = f.parent == nil || msgp.IsNil(f.parent); !e.Root {
		if e.Parent, _, err = blockHash(f.parent); err != nil {
			return err
		}
	}
	size, err := whole(f.size)
	if err != nil || size < 0 || size > 1<<20 {
		return fmt.Errorf("a block of %d tokens: %w", size, err)
	}
	if size == 0 { // it stands for a block that has been moved out
		e.Hashes = e.Hashes[:0]
		return nil
	}
	e.Size = int(size)
	if e.Tokens, err = tokens(e.Tokens, f.tokens); err != nil {
		return err
	}
	if len(e.Tokens) != len(e.Hashes)*e.Size {
		e.Tokens = e.Tokens[:0]
	}
	return r.extras()
}

// extras makes one number for each block of what tells it apart beside its
// tokens.
func (r *KVReader) extras() error {
	f := &r.fields
	var of uint64
	for _, part := range [][]byte{f.lora, f.loraName, f.salt} {
		of = mixIn(of, part)
	}
	per := uint32(0)
	rest := f.extra
	if f.extra != nil && msgp.NextType(f.extra) == msgp.ArrayType {
		var err error
		if per, rest, err = msgp.ReadArrayHeaderBytes(f.extra); err != nil {
			return err
		}
	}
	if of == 0 && per == 0 {
		return nil
	}
	some := of != 0
	for i := range r.event.Hashes {
		own := of
		if i < int(per) {
			var part []byte
			var err error
			if part, rest, err = next(rest); err != nil {
				return err
			}
			own = mixIn(of, part)
			some = some || own != 0
		}
		r.event.Extra = append(r.event.Extra, own)
	}
	if !some {
		r.event.Extra = r.event.Extra[:0]
	}
	return nil
}

// mixIn returns a hash of h and of part, if part says anything.
func mixIn(h uint64, part []byte) uint64 {
	if len(part) == 0 || msgp.IsNil(part) {
		return h
	}
	digest := fnv.New64a()
	var before [8]byte
	binary.LittleEndian.PutUint64(before[:], h)
	_, _ = digest.Write(before[:]) // never fails
	_, _ = digest.Write(part)
	return digest.Sum64()
}

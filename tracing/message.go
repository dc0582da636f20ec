package tracing

import (
	"math"
	"time"

	"google.golang.org/protobuf/encoding/protowire"
)

// A message is protobuf that is being written, field after field.
type message struct{ b []byte }

// open begins a field that is a message itself. What is written next belongs to
// it, until close is called with what open has returned.
func (m *message) open(field protowire.Number) (at int) {
	m.b = protowire.AppendTag(m.b, field, protowire.BytesType)
	return len(m.b)
}

// close puts the length of a message before it.
func (m *message) close(at int) {
	n := len(m.b) - at
	for range protowire.SizeVarint(uint64(n)) {
		m.b = append(m.b, 0)
	}
	copy(m.b[len(m.b)-n:], m.b[at:at+n])
	protowire.AppendVarint(m.b[:at], uint64(n))
}

func (m *message) text(field protowire.Number, s string) {
	m.b = protowire.AppendString(protowire.AppendTag(m.b, field, protowire.BytesType), s)
}

func (m *message) bytes(field protowire.Number, b []byte) {
	m.b = protowire.AppendBytes(protowire.AppendTag(m.b, field, protowire.BytesType), b)
}

func (m *message) varint(field protowire.Number, v uint64) {
	m.b = protowire.AppendVarint(protowire.AppendTag(m.b, field, protowire.VarintType), v)
}

func (m *message) fixed32(field protowire.Number, v uint32) {
	m.b = protowire.AppendFixed32(protowire.AppendTag(m.b, field, protowire.Fixed32Type), v)
}

func (m *message) fixed64(field protowire.Number, v uint64) {
	m.b = protowire.AppendFixed64(protowire.AppendTag(m.b, field, protowire.Fixed64Type), v)
}

// Attributes are a KeyValue each: the key, and an AnyValue of one of several
// kinds. What is empty, or below 0 and so not known, is left out.
const (
	keyField   = 1
	valueField = 2

	textKind  = 1
	boolKind  = 2
	wholeKind = 3
	realKind  = 4
)

// attribute writes the head of an attribute whose value, of that kind, takes so
// many bytes and comes next.
func (m *message) attribute(field protowire.Number, key string, kind protowire.Number, wire protowire.Type, size int) {
	value := protowire.SizeTag(kind) + size
	m.b = protowire.AppendTag(m.b, field, protowire.BytesType)
	m.b = protowire.AppendVarint(m.b, uint64(protowire.SizeTag(keyField)+protowire.SizeBytes(len(key))+protowire.SizeTag(valueField)+protowire.SizeBytes(value)))
	m.text(keyField, key)
	m.b = protowire.AppendTag(m.b, valueField, protowire.BytesType)
	m.b = protowire.AppendVarint(m.b, uint64(value))
	m.b = protowire.AppendTag(m.b, kind, wire)
}

func (m *message) textAttribute(field protowire.Number, key, value string) {
	if value == "" {
		return
	}
	m.attribute(field, key, textKind, protowire.BytesType, protowire.SizeBytes(len(value)))
	m.b = protowire.AppendString(m.b, value)
}

func (m *message) wholeAttribute(field protowire.Number, key string, value int64) {
	if value < 0 {
		return
	}
	m.attribute(field, key, wholeKind, protowire.VarintType, protowire.SizeVarint(uint64(value)))
	m.b = protowire.AppendVarint(m.b, uint64(value))
}

func (m *message) realAttribute(field protowire.Number, key string, value float64) {
	if math.IsNaN(value) {
		return
	}
	m.attribute(field, key, realKind, protowire.Fixed64Type, protowire.SizeFixed64())
	m.b = protowire.AppendFixed64(m.b, math.Float64bits(value))
}

func (m *message) secondsAttribute(field protowire.Number, key string, d time.Duration) {
	m.realAttribute(field, key, d.Seconds())
}

func (m *message) boolAttribute(field protowire.Number, key string, value bool) {
	m.attribute(field, key, boolKind, protowire.VarintType, 1)
	m.b = protowire.AppendVarint(m.b, protowire.EncodeBool(value))
}

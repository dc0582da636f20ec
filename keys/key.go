package keys

import (
	"crypto/sha256"
	"crypto/subtle"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"strings"
)

// usual is how long a key may be without costing memory, in bytes.
const usual = 256

// A Key lets in whoever sends it.
type Key struct {
	// Name says in logs whose it is. It may be empty.
	Name string

	digest digest
}

// A digest is a SHA-256, in words: four comparisons for a key in place of 32.
type digest [sha256.Size / 8]uint64

func digestOf(secret []byte) digest { return digestFrom(sha256.Sum256(secret)) }

func digestFrom(sum [sha256.Size]byte) (d digest) {
	for i := range d {
		d[i] = binary.LittleEndian.Uint64(sum[8*i:])
	}
	return d
}

// byDigest begins the text of a key that is given by its digest.
const byDigest = "sha256:"

// New returns the key that secret is, of the given name. It may be what Digest
// returns for it.
func New(name, secret string) Key {
	var sum [sha256.Size]byte
	if text, is := strings.CutPrefix(secret, byDigest); is && len(text) == hex.EncodedLen(len(sum)) {
		if _, err := hex.Decode(sum[:], []byte(text)); err == nil {
			return Key{name, digestFrom(sum)}
		}
	}
	return Key{name, digestOf([]byte(secret))}
}

// Digest returns what stands for the key, and cannot be sent in its place.
func (k Key) Digest() string {
	var sum []byte
	for _, word := range k.digest {
		sum = binary.LittleEndian.AppendUint64(sum, word)
	}
	return byDigest + hex.EncodeToString(sum)
}

// IsEmpty reports whether k is the key of no letters, which is none.
func (k Key) IsEmpty() bool { return k.digest == digestOf(nil) || k.digest == digest{} }

// A Set is the keys of which one lets in. An empty one lets nobody in: whether
// that means everybody is for its owner to say.
type Set []Key

// Of returns a set of keys without names.
func Of(secrets ...string) Set {
	var s Set
	for _, secret := range secrets {
		s = append(s, New("", secret))
	}
	return s
}

// Find returns the name of the key in an Authorization header, and whether it is
// one of s.
func (s Set) Find(authorization string) (name string, found bool) {
	scheme, secret, _ := strings.Cut(authorization, " ")
	var memory [usual]byte
	sent := digestOf(append(memory[:0], strings.TrimSpace(secret)...))
	at := -1
	for i := range s {
		known := &s[i].digest
		differ := known[0] ^ sent[0] | known[1] ^ sent[1] | known[2] ^ sent[2] | known[3] ^ sent[3]
		at = subtle.ConstantTimeSelect(isZero(differ), i, at)
	}
	if at < 0 || !strings.EqualFold(scheme, "Bearer") {
		return "", false
	}
	return s[at].Name, true
}

// isZero returns 1 if x is 0, else 0, without a branch that would take a time of
// its own.
func isZero(x uint64) int { return int(1 ^ (x|-x)>>63) }

// Check reports what cannot be a key.
func Check(secret string) error {
	if strings.ContainsFunc(secret, func(r rune) bool { return r <= ' ' || r >= 0x7f }) {
		return errors.New("a key is made of visible ASCII letters, without blanks")
	}
	return nil
}

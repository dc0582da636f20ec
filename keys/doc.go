// Package keys says who may ask: bearer keys, and the names that they have for
// people. It reads keys from text, and compares what is sent with them. It opens
// no file, and does not know what a key is good for.
//
// # Files
//
// One key per line. A line may begin with a name: alice:KEY, or alice=KEY. Blank
// lines, and those that begin with #, say nothing. A key of a file has at least
// 16 characters, so that the end of a key in base64 (xyz==) is not taken for a key
// with a name, and a word for no key at all. In place of a key its digest may
// stand, as sha256: and 64 hexadecimal digits.
//
// # Invariants
//
// A key is kept as its SHA-256 digest, never in clear, and no error quotes one.
// Set.Find takes the same time whichever key is sent: it compares digests, which
// have one length, with every key of the set. Keys are random, so that no digest
// needs salt or a slow hash; whoever has the memory of the process and a key that
// can be guessed can find it.
//
// # Concurrency
//
// All values are immutable.
package keys

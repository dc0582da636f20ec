package keys

import (
	"errors"
	"fmt"
	"slices"
	"strings"
)

const (
	// minLength is that of the shortest key of a file, in characters.
	minLength = 16

	// maxName is that of the longest name.
	maxName = 64
)

// ErrNone says that a file has no key.
var ErrNone = errors.New("holds no key")

// Parse returns the keys of a file's text. Its error names every line that is
// none, and quotes nothing of it. Several keys may have one name: that is how a
// key is replaced without a moment at which neither is good.
func Parse(text []byte) (Set, error) {
	var s Set
	err := eachLine(text, func(line string) error {
		k, err := parseLine(line)
		if err == nil && slices.ContainsFunc(s, func(other Key) bool { return other.digest == k.digest }) {
			return errors.New("is a key for the second time")
		}
		s = append(s, k)
		return err
	})
	return s, err
}

// ParseOne returns the one key of a file's text in clear, for who has to send it.
func ParseOne(text []byte) (secret string, err error) {
	n := 0
	err = eachLine(text, func(line string) error {
		secret = line
		if n++; n > 1 {
			return errors.New("is one more key than can be sent")
		}
		return Check(line)
	})
	if err != nil {
		return "", err
	}
	return secret, nil
}

// FirstOf returns the first key of a file's text in clear, for a client that is
// given the file of the one whom it asks.
func FirstOf(text []byte) (secret string, err error) {
	err = eachLine(text, func(line string) error {
		_, own, fault := splitLine(line)
		if secret == "" {
			secret = own
		}
		return fault
	})
	return secret, err
}

// eachLine calls take with each line that says something.
func eachLine(text []byte, take func(line string) error) error {
	var faults []error
	n, some := 0, false
	for line := range strings.Lines(strings.TrimPrefix(string(text), "\ufeff")) {
		n++
		line = strings.TrimSpace(line)
		if line == "" || line[0] == '#' {
			continue
		}
		some = true
		if err := take(line); err != nil {
			faults = append(faults, fmt.Errorf("line %d %w", n, err))
		}
	}
	if !some {
		return ErrNone
	}
	return errors.Join(faults...)
}

// parseLine returns the key of a line.
func parseLine(line string) (Key, error) {
	name, secret, err := splitLine(line)
	if err != nil {
		return Key{}, err
	}
	return New(name, secret), nil
}

// splitLine returns the key of a line in clear, and the name before it if there
// is one.
func splitLine(line string) (name, secret string, err error) {
	secret = line
	if i := strings.IndexAny(line, ":="); i >= 0 && isName(strings.TrimSpace(line[:i])) {
		name, secret = strings.TrimSpace(line[:i]), strings.TrimSpace(line[i+1:])
	}
	switch {
	case Check(secret) != nil:
		return "", "", fmt.Errorf("is no key: %w", Check(secret))
	case len(secret) >= minLength:
		return name, secret, nil
	case name != "":
		return "", "", fmt.Errorf("is no key: what is behind the name has fewer than %d characters (a key that has : or = in it needs a name before it)", minLength)
	default:
		return "", "", fmt.Errorf("is no key: it has fewer than %d characters", minLength)
	}
}

// isName reports whether text may stand for a key in logs.
func isName(text string) bool {
	return text != "" && len(text) <= maxName && strings.Trim(strings.ToLower(text), "abcdefghijklmnopqrstuvwxyz0123456789._-") == ""
}

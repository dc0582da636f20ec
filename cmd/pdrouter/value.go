package main

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"pdrouter/keys"

	"github.com/spf13/pflag"
)

// A value is where a setting keeps what it is given, be it by flag or by file.
type value interface {
	pflag.Value

	// plain returns the value as the file would have it.
	plain() any
}

// A scalar is one T, kept at dst.
type scalar[T any] struct {
	dst   *T
	word  string // what --help calls the value
	parse func(string) (T, error)
	show  func(T) any // nil: as it is
}

func (s *scalar[T]) Set(text string) error {
	v, err := s.parse(text)
	if err == nil {
		*s.dst = v
	}
	return err
}

func (s *scalar[T]) String() string { return fmt.Sprint(s.plain()) }
func (s *scalar[T]) Type() string   { return s.word }

func (s *scalar[T]) plain() any {
	if s.show == nil {
		return *s.dst
	}
	return s.show(*s.dst)
}

// A list is several T, kept at dst. The first one given replaces the default.
type list[T any] struct {
	dst   *[]T
	word  string
	parse func(string) (T, error)
	given bool
}

func (l *list[T]) Set(text string) error {
	v, err := l.parse(text)
	if err != nil {
		return err
	}
	if !l.given {
		*l.dst, l.given = nil, true
	}
	*l.dst = append(*l.dst, v)
	return nil
}

// clear takes the default away: an empty list in the file is an empty list.
func (l *list[T]) clear() { *l.dst, l.given = nil, true }

func (l *list[T]) String() string { return strings.Trim(fmt.Sprint(*l.dst), "[]") }
func (l *list[T]) Type() string   { return l.word }
func (l *list[T]) plain() any     { return append([]T{}, *l.dst...) }

func newText(dst *string, word string) value {
	return &scalar[string]{dst: dst, word: word, parse: func(s string) (string, error) { return s, nil }}
}

func newTexts(dst *[]string, word string) value {
	return &list[string]{dst: dst, word: word, parse: func(s string) (string, error) { return s, nil }}
}

// newChoices takes several of names.
func newChoices(dst *[]string, names []string) value {
	return &list[string]{dst: dst, word: "name...", parse: func(s string) (string, error) { return oneOf(s, names) }}
}

// redacted stands for a key where the configuration is printed.
const redacted = "***"

// newSecret, newKeys and newTenantKeys refuse what stands for a key: a file made from the
// output of check must not turn three stars into a password.
func newSecret(dst *string) value {
	return &scalar[string]{dst: dst, word: "key", parse: parseSecret}
}

// Of newKeys the last one in clear is kept too, if there is a place for it.
func newKeys(dst *keys.Set, clear *string) value {
	return &list[keys.Key]{dst: (*[]keys.Key)(dst), word: "key", parse: func(text string) (keys.Key, error) {
		key, err := parseSecret(text)
		if clear != nil {
			*clear = key
		}
		return keys.New("", key), err
	}}
}

// newTenantKeys keeps the key of each TENANT:KEY, under the tenant's name.
func newTenantKeys(dst *keys.Set) value {
	return &list[keys.Key]{dst: (*[]keys.Key)(dst), word: "tenant:key", parse: func(text string) (keys.Key, error) {
		tenant, key, ok := strings.Cut(text, ":")
		if !ok || tenant == "" || key == "" {
			return keys.Key{}, errors.New("not TENANT:KEY")
		}
		key, err := parseSecret(key)
		return keys.New(tenant, key), err
	}}
}

func parseSecret(text string) (string, error) {
	if text == redacted {
		return "", errors.New("*** is what check prints in place of a key; put the key itself there")
	}
	return text, keys.Check(text)
}

func newSwitch(dst *bool) value {
	return &scalar[bool]{dst: dst, word: "bool", parse: parseSwitch}
}

func newWhole[T int | int64](dst *T) value {
	return &scalar[T]{dst: dst, word: "int", parse: parseWhole[T]}
}

func newNumber(dst *float64) value {
	return &scalar[float64]{dst: dst, word: "number", parse: parseNumber}
}

func newNumbers(dst *[]float64) value {
	return &list[float64]{dst: dst, word: "numbers", parse: parseNumber}
}

func newSeconds(dst *time.Duration) value {
	return &scalar[time.Duration]{dst: dst, word: "seconds", parse: parseSeconds, show: showSeconds}
}

func newMillis(dst *time.Duration) value {
	return &scalar[time.Duration]{dst: dst, word: "milliseconds", parse: parseMillis, show: showMillis}
}

func newChoice(dst *string, names []string) value {
	return &scalar[string]{dst: dst, word: "name", parse: func(s string) (string, error) { return oneOf(s, names) }}
}

func oneOf(s string, names []string) (string, error) {
	if !slices.Contains(names, s) {
		return "", fmt.Errorf("unknown; known are %s", strings.Join(names, ", "))
	}
	return s, nil
}

func parseSwitch(text string) (bool, error) {
	switch text {
	case "true":
		return true, nil
	case "false":
		return false, nil
	}
	return false, errors.New("neither true nor false")
}

func parseWhole[T int | int64](text string) (T, error) {
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil || int64(T(n)) != n {
		return 0, errors.New("not a whole number")
	}
	return T(n), nil
}

func parseNumber(text string) (float64, error) {
	f, err := strconv.ParseFloat(text, 64)
	if err != nil || math.IsNaN(f) || math.IsInf(f, 0) {
		return 0, errors.New("not a number")
	}
	return f, nil
}

// parseSeconds takes 30 and 0.5, not 30s: smg's flags end in -secs, and a unit
// said twice is a unit that can contradict itself.
func parseSeconds(text string) (time.Duration, error) { return parseTime(text, time.Second, "seconds") }

func parseMillis(text string) (time.Duration, error) {
	return parseTime(text, time.Millisecond, "milliseconds")
}

func parseTime(text string, unit time.Duration, word string) (time.Duration, error) {
	f, err := parseNumber(text)
	if err != nil || f < 0 || f > math.MaxInt64/float64(unit)/2 {
		return 0, fmt.Errorf("not a number of %s", word)
	}
	return time.Duration(math.Round(f * float64(unit))), nil
}

// showMillis returns d as a number of milliseconds, whole if it is.
func showMillis(d time.Duration) any {
	if d%time.Millisecond == 0 {
		return int64(d / time.Millisecond)
	}
	return float64(d) / float64(time.Millisecond)
}

// showSeconds returns d as a number of seconds, whole if it is.
func showSeconds(d time.Duration) any {
	if d%time.Second == 0 {
		return int64(d / time.Second)
	}
	return d.Seconds()
}

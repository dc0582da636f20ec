package admin

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
)

// A taker takes the value of a key.
type taker func(json.RawMessage) error

// An object is what may stand in a JSON object: what takes the value of each
// key. A null is as if the key was not there.
type object map[string]taker

// read reads body. encoding/json alone would take a key twice, or in other
// letters, and say nothing.
func (o object) read(body []byte) error {
	dec := json.NewDecoder(bytes.NewReader(body))
	if begin, err := dec.Token(); err != nil || begin != json.Delim('{') {
		return errors.New("the body must be a JSON object")
	}
	var faults []error
	var seen []string
	for dec.More() {
		token, err := dec.Token()
		if err != nil {
			return notJSON(err)
		}
		key, _ := token.(string)
		var value json.RawMessage
		if err := dec.Decode(&value); err != nil {
			return notJSON(err)
		}
		take, known := o[key]
		switch {
		case !known:
			faults = append(faults, fmt.Errorf("unknown key %q", shown(key)))
		case slices.Contains(seen, key):
			faults = append(faults, fmt.Errorf("%s: given twice", key))
		case take != nil && string(value) != "null":
			if err := take(value); err != nil {
				faults = append(faults, fmt.Errorf("%s: %w", key, err))
			}
		}
		seen = append(seen, key)
	}
	if _, err := dec.Token(); err != nil {
		return notJSON(err)
	}
	if _, err := dec.Token(); !errors.Is(err, io.EOF) {
		return errors.New("something follows the JSON object")
	}
	return join(faults)
}

func notJSON(err error) error { return fmt.Errorf("the body is not JSON: %w", err) }

// join returns the faults in one line.
func join(faults []error) error {
	if len(faults) == 0 {
		return nil
	}
	var line bytes.Buffer
	for i, f := range faults {
		if i > 0 {
			line.WriteString("; ")
		}
		line.WriteString(f.Error())
	}
	return errors.New(line.String())
}

// into keeps a value at dst. What it was is not repeated: it may be a key.
func into[T any](dst *T, want string) taker {
	return func(value json.RawMessage) error {
		if json.Unmarshal(value, dst) != nil {
			return errors.New("must be " + want)
		}
		return nil
	}
}

// unless refuses a value that says something, because it would not be done.
func unless(why string) taker {
	return func(value json.RawMessage) error {
		var compact bytes.Buffer
		if err := json.Compact(&compact, value); err != nil {
			return err
		}
		switch compact.String() {
		case `{}`, `[]`, `""`, `false`:
			return nil
		}
		return errors.New(why)
	}
}

// oneOf keeps one of some words at dst.
func oneOf(dst *string, why string, words ...string) taker {
	return func(value json.RawMessage) error {
		var word string
		if json.Unmarshal(value, &word) != nil {
			return errors.New("must be a string")
		}
		if !slices.Contains(words, word) {
			return fmt.Errorf("%q: %s", shown(word), why)
		}
		*dst = word
		return nil
	}
}

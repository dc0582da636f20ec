package sim

import (
	"bytes"
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// literal are the keys whose values must be as captured, not only their types.
func literal(key string) bool {
	return slices.Contains([]string{
		"object", "role", "type", "finish_reason", "code", "status_code", "owned_by", "matched_stop", "matched",
		"version", "weight_version", "transfer_mode", "do_remote_prefill", "do_remote_decode",
		"disaggregation_mode", "message", "index", "is_generation", "num_retractions",
	}, key)
}

// shape describes a JSON value so that two of a kind have the same
// description: keys in order, types, and what literal names. Equal neighbours
// in an array count as one.
func shape(t *testing.T, raw json.RawMessage) string {
	t.Helper()
	dec := json.NewDecoder(bytes.NewReader(raw))
	dec.UseNumber()
	return shapeOf(t, dec, "")
}

func shapeOf(t *testing.T, dec *json.Decoder, key string) string {
	t.Helper()
	token, err := dec.Token()
	if err != nil {
		t.Fatal(err)
	}
	switch v := token.(type) {
	case json.Delim:
		if v == '{' {
			return objectShape(t, dec)
		}
		return arrayShape(t, dec, key)
	case string:
		if literal(key) {
			return fmt.Sprintf("%q", normal(v))
		}
		return "string"
	case json.Number:
		switch {
		case literal(key):
			return v.String()
		case strings.ContainsAny(v.String(), ".eE"):
			return "float"
		}
		return "int"
	}
	if literal(key) {
		return fmt.Sprint(token)
	}
	return fmt.Sprintf("%T", token)
}

func objectShape(t *testing.T, dec *json.Decoder) string {
	t.Helper()
	var b strings.Builder
	for dec.More() {
		key, err := dec.Token()
		if err != nil {
			t.Fatal(err)
		}
		fmt.Fprintf(&b, "%v:%s ", key, shapeOf(t, dec, key.(string)))
	}
	_, _ = dec.Token()
	return "{" + b.String() + "}"
}

func arrayShape(t *testing.T, dec *json.Decoder, key string) string {
	t.Helper()
	var items []string
	for dec.More() {
		items = append(items, shapeOf(t, dec, key))
	}
	_, _ = dec.Token()
	return "[" + strings.Join(slices.Compact(items), ", ") + "]"
}

// normal leaves out of a message what is another each time.
func normal(s string) string {
	s = regexp.MustCompile(`[0-9a-f]{32}|my-rid-\d`).ReplaceAllString(s, "ID")
	return regexp.MustCompile(`\d+(\.\d+)?`).ReplaceAllString(s, "N")
}

// bodyShape describes a body: of events, those that follow each other and are
// alike count as one.
func bodyShape(t *testing.T, body string) []string {
	t.Helper()
	if !strings.HasPrefix(body, "data: ") {
		return []string{shape(t, json.RawMessage(body))}
	}
	if !strings.HasSuffix(body, "\n\n") {
		t.Errorf("stream does not end with an empty line: %q", body)
	}
	var shapes []string
	for frame := range strings.SplitSeq(strings.TrimSuffix(body, "\n\n"), "\n\n") {
		data, ok := strings.CutPrefix(frame, "data: ")
		if !ok {
			t.Errorf("frame %q has no data", frame)
		}
		if data != "[DONE]" {
			// Python's json.dumps puts spaces after separators, pydantic does not.
			spaced := strings.HasPrefix(data, `{"error": {`)
			data = fmt.Sprint(spaced, shape(t, json.RawMessage(data)))
		}
		shapes = append(shapes, data)
	}
	return slices.Compact(shapes)
}

// sameShape compares an answer with a captured one.
func sameShape(t *testing.T, got, want string) {
	t.Helper()
	g, w := bodyShape(t, got), bodyShape(t, want)
	if slices.Equal(g, w) {
		return
	}
	for i := range max(len(g), len(w)) {
		var a, b string
		if i < len(g) {
			a = g[i]
		}
		if i < len(w) {
			b = w[i]
		}
		if a != b {
			t.Errorf("part %d is shaped\n %s\nwant\n %s\nbody %s", i, a, b, got)
			return
		}
	}
}

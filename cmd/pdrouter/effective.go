package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"strconv"
	"strings"

	"pdrouter/keys"
	"pdrouter/workers"

	"github.com/goccy/go-yaml"
)

// A field is one key of a document with its value.
type field struct {
	Name  string
	Value any
}

// A document is a map that keeps its order, in YAML and in JSON.
type document []field

// MarshalYAML returns d as a YAML map.
func (d document) MarshalYAML() ([]byte, error) {
	m := make(yaml.MapSlice, len(d))
	for i, f := range d {
		m[i] = yaml.MapItem{Key: f.Name, Value: f.Value}
	}
	return yaml.MarshalWithOptions(m, yaml.IndentSequence(true))
}

// MarshalJSON returns d as one JSON object.
func (d document) MarshalJSON() ([]byte, error) {
	var b bytes.Buffer
	for i, f := range d {
		value, err := json.Marshal(f.Value)
		if err != nil {
			return nil, fmt.Errorf("encode %s: %w", f.Name, err)
		}
		b.WriteString(map[bool]string{true: "{", false: ","}[i == 0])
		fmt.Fprintf(&b, "%q:%s", f.Name, value)
	}
	if len(d) == 0 {
		b.WriteByte('{')
	}
	b.WriteByte('}')
	return b.Bytes(), nil
}

// effective returns what is in force, by the names of flags and file, and what
// was given for later releases or other policies. Fed back by --config it makes the same Config,
// once the keys, which are not printed, are put in.
func (in *intake) effective() document {
	var doc document
	for _, s := range in.settings {
		switch {
		case s.value == nil || s.hint || !in.given[s.name] && (s.standing == later || s.unread(in.cfg) != ""):
		case s.secret:
			doc = append(doc, in.redactedField(s)...)
		case !isEmpty(s.value.plain()):
			doc = append(doc, field{s.name, s.value.plain()})
		}
	}
	return doc
}

// redactedField returns s with three stars in place of each key, behind its name.
func (in *intake) redactedField(s setting) document {
	switch v := s.value.plain().(type) {
	case []keys.Key:
		stars := named(v, func(keys.Key) string { return redacted })
		if len(stars) > 0 {
			return document{{s.name, stars}}
		}
	case string:
		if v != "" {
			return document{{s.name, redacted}}
		}
	}
	return nil
}

// named returns the text of each key behind its name.
func named(all []keys.Key, text func(keys.Key) string) []string {
	out := make([]string, len(all))
	for i, k := range all {
		out[i] = text(k)
		if k.Name != "" {
			out[i] = k.Name + ":" + out[i]
		}
	}
	return out
}

// isEmpty reports whether a value says nothing: no file, no policy of its own.
func isEmpty(v any) bool {
	switch v := v.(type) {
	case string:
		return v == ""
	case []any: // workers
		return len(v) == 0
	}
	return false
}

// A workerRow is one worker with all that is settled before it is asked.
type workerRow struct {
	Role      string `json:"role"`
	URL       string `json:"url"`
	Bootstrap string `json:"bootstrap,omitempty"`
	Dialect   string `json:"dialect"`
}

// workerRows returns the workers of c in the order in which they are leased.
func (c Config) workerRows() []workerRow {
	fleet, _ := c.fleet() // Validate has said what is wrong with it
	rows := make([]workerRow, len(fleet.Specs))
	for i, s := range fleet.Specs {
		rows[i] = workerRow{Role: s.Role.String(), URL: s.URL, Dialect: c.Workers.Dialect}
		if s.Role == workers.Prefill {
			rows[i].Bootstrap = bootstrapAddress(s)
		}
	}
	return rows
}

// bootstrapAddress returns where decode engines will find the bootstrap server
// of s. A question mark is for the engine to answer.
func bootstrapAddress(s workers.Spec) string {
	host, port := s.BootstrapHost, "?"
	if host == "" && !strings.HasPrefix(s.URL, "unix:") {
		host = workers.Hostname(s.URL)
	}
	switch {
	case s.BootstrapPort == workers.BootstrapNone:
		port = "none"
	case s.BootstrapPort > 0:
		port = strconv.Itoa(s.BootstrapPort)
	}
	if host == "" {
		host = "?"
	}
	return net.JoinHostPort(host, port)
}

// writeTable writes rows as YAML comments with even columns.
func writeTable(w io.Writer, rows []workerRow) {
	cells := [][4]string{{"ROLE", "URL", "BOOTSTRAP", "DIALECT"}}
	for _, r := range rows {
		cells = append(cells, [4]string{r.Role, r.URL, r.Bootstrap, r.Dialect})
	}
	var wide [4]int
	for _, row := range cells {
		for i, cell := range row {
			wide[i] = max(wide[i], len(cell))
		}
	}
	for _, row := range cells {
		line := fmt.Sprintf("# %-*s  %-*s  %-*s  %s", wide[0], row[0], wide[1], row[1], wide[2], row[2], row[3])
		fmt.Fprintln(w, strings.TrimRight(line, " "))
	}
}

package main

import (
	"errors"
	"fmt"
	"os"
	"slices"

	"pdrouter/keys"
	"pdrouter/workers"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/parser"
	"github.com/goccy/go-yaml/token"
)

// readFile takes what the YAML file at path says and the command line did not.
func (in *intake) readFile(path string) error {
	text, err := os.ReadFile(path)
	if err != nil {
		return fmt.Errorf("config: %w", err)
	}
	return in.readYAML(path, text)
}

// readYAML takes what text, the contents of path, says. It returns an error if
// it is no YAML; what is wrong with single keys goes to the faults.
func (in *intake) readYAML(path string, text []byte) error {
	doc, err := parser.ParseBytes(text, 0, parser.AllowDuplicateMapKey())
	if err != nil {
		if syntax, ok := errors.AsType[yaml.Error](err); ok {
			return placed(path, syntax.GetToken(), syntax.GetMessage())
		}
		return fmt.Errorf("%s: %w", path, err)
	}
	f := configFile{in: in, path: path}
	for i, d := range doc.Docs {
		if i > 0 {
			f.fault(d.Start, "a second document; only one is read")
			break
		}
		f.document(d.Body)
	}
	return nil
}

// A configFile is a file on its way into an intake.
type configFile struct {
	in   *intake
	path string
}

// fault notes what is wrong at the place of t.
func (f *configFile) fault(t *token.Token, format string, args ...any) {
	f.in.faults = append(f.in.faults, placed(f.path, t, fmt.Sprintf(format, args...)))
}

// placed returns an error that names file, line and column.
func placed(path string, t *token.Token, what string) error {
	if t == nil || t.Position == nil {
		return fmt.Errorf("%s: %s", path, what)
	}
	return fmt.Errorf("%s:%d:%d: %s", path, t.Position.Line, t.Position.Column, what)
}

// document reads the one map that a file is. An empty file is fine.
func (f *configFile) document(body ast.Node) {
	switch n := body.(type) {
	case nil, *ast.NullNode, *ast.CommentGroupNode:
	case *ast.MappingNode:
		byFlag := f.in.given
		f.in.given = map[string]bool{}
		f.pairs(n, f.in.settingNames(), func(name string, value ast.Node) {
			if !byFlag[name] {
				f.setting(f.in.setting(name), value)
			}
		})
		for name := range byFlag {
			f.in.given[name] = true
		}
	default:
		f.fault(n.GetToken(), "not a map of settings, as in \"port: 30001\"")
	}
}

// pairs calls each with every key of n that is known, once.
func (f *configFile) pairs(n *ast.MappingNode, known []string, each func(name string, value ast.Node)) {
	lines := map[string]int{}
	for _, pair := range n.Values {
		key := pair.Key.GetToken()
		switch line, twice := lines[key.Value]; {
		case !slices.Contains(known, key.Value):
			f.fault(key, "unknown key %q; did you mean %s?", key.Value, nearest(key.Value, known))
		case twice:
			f.fault(key, "%s: said already in line %d", key.Value, line)
		default:
			lines[key.Value] = key.Position.Line
			each(key.Value, pair.Value)
		}
	}
}

// setting gives n to s.
func (f *configFile) setting(s *setting, n ast.Node) {
	items := []ast.Node{n}
	if seq, ok := n.(*ast.SequenceNode); ok {
		if !s.isList() {
			f.fault(seq.GetToken(), "%s: takes one value, not a list", s.name)
			return
		}
		items = seq.Values
		f.in.given[s.name] = true
		if l, ok := s.value.(interface{ clear() }); ok {
			l.clear()
		}
	}
	for _, item := range items {
		f.item(s, item)
		if f.in.noted != nil {
			f.in.noted(item.GetToken())
		}
	}
}

// item gives one value to s.
func (f *configFile) item(s *setting, item ast.Node) {
	if m, ok := item.(*ast.MappingNode); ok {
		f.worker(s, m)
		return
	}
	f.scalar(s.name, item, func(text string) {
		if err := f.in.set(s, text); err != nil {
			f.fault(item.GetToken(), "%s", err)
		}
	})
}

// worker reads a worker with more to it than its URL.
func (f *configFile) worker(s *setting, m *ast.MappingNode) {
	own, ok := s.value.(*workerList)
	if !ok {
		f.fault(m.GetToken(), "%s: takes no map", s.name)
		return
	}
	f.in.given[s.name] = true
	spec := workers.Spec{Role: own.role}
	f.pairs(m, workerKeys(own.role), func(key string, n ast.Node) {
		f.scalar(key, n, func(text string) {
			if err := setWorkerKey(&spec, key, text); err != nil {
				f.fault(n.GetToken(), "%s: %s: %s", s.name, key, err)
			}
		})
	})
	if spec.URL == "" {
		f.fault(m.GetToken(), "%s: a worker without url", s.name)
		spec.URL = "?"
	}
	*own.specs = append(*own.specs, spec)
}

// scalar calls set with the text of n, if n is a plain value.
func (f *configFile) scalar(name string, n ast.Node, set func(text string)) {
	switch n := n.(type) {
	case *ast.StringNode:
		set(n.Value)
	case *ast.LiteralNode:
		set(n.Value.Value)
	case *ast.IntegerNode, *ast.FloatNode, *ast.BoolNode:
		set(n.GetToken().Value)
	case *ast.NullNode:
		f.fault(n.GetToken(), "%s: has no value", name)
	default:
		f.fault(n.GetToken(), "%s: takes a plain value", name)
	}
}

// isList reports whether s may be given several values.
func (s *setting) isList() bool {
	switch s.value.(type) {
	case nil, *list[string], *list[float64], *list[keys.Key], *workerList, *kvRules:
		return true
	}
	return false
}

// setting returns the setting of that name, which is there.
func (in *intake) setting(name string) *setting {
	i := slices.IndexFunc(in.settings, func(s setting) bool { return s.name == name })
	return &in.settings[i]
}

// settingNames returns the names of all settings, in the order of --help.
func (in *intake) settingNames() []string {
	names := make([]string, len(in.settings))
	for i, s := range in.settings {
		names[i] = s.name
	}
	return names
}

package systemd

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strings"

	"github.com/coreos/go-systemd/v22/dbus"
)

// ErrNoManager reports a host that systemd does not run.
var ErrNoManager = errors.New("systemd does not run here")

// A Manager is systemd's manager of the system, spoken to over D-Bus. It has to
// be closed.
type Manager struct{ conn *dbus.Conn }

// DialManager connects to the manager: over the system bus, as root also without
// one. It returns ErrNoManager where systemd does not run.
func DialManager(ctx context.Context) (*Manager, error) {
	if _, err := os.Lstat("/run/systemd/system"); errors.Is(err, fs.ErrNotExist) { // sd_booted(3)
		return nil, ErrNoManager
	}
	conn, err := dbus.NewWithContext(ctx)
	if err != nil {
		return nil, fmt.Errorf("speak to systemd over D-Bus: %w", err)
	}
	return &Manager{conn}, nil
}

// Close ends the connection.
func (m *Manager) Close() { m.conn.Close() }

// A Unit is a service as its manager knows it.
type Unit struct {
	Name        string
	Load        string // loaded, not-found, ...
	Active      string // active, activating, failed, ...
	Result      string // success, exit-code, timeout, ...
	Type        string // notify, simple, ...
	MainPID     int
	Restarts    int    // by itself, since it was started
	FileLimit   uint64 // LimitNOFILE
	NeedsReload bool   // its file has changed since the manager has read it

	// Command is that of ExecStart, as it is written: variables stand for
	// themselves. Environment is what they stand for, as NAME=value, from the
	// unit and from its environment files, as far as these can be read.
	Command     []string
	Environment []string

	// Unread are the environment files that cannot be.
	Unread []string
}

// Units returns the services that pattern names: the name of a unit, without
// .service if one likes, or a pattern of names that the manager has loaded.
func (m *Manager) Units(ctx context.Context, pattern string) ([]Unit, error) {
	if !strings.HasSuffix(pattern, ".service") {
		pattern += ".service"
	}
	names := []string{pattern}
	if strings.ContainsAny(pattern, "*?[") {
		listed, err := m.conn.ListUnitsByPatternsContext(ctx, nil, names)
		if err != nil {
			return nil, fmt.Errorf("list %s: %w", pattern, err)
		}
		names = nil
		for _, u := range listed {
			names = append(names, u.Name)
		}
		slices.Sort(names)
	}
	var units []Unit
	for _, name := range names {
		all, err := m.conn.GetAllPropertiesContext(ctx, name)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		units = append(units, unitOf(name, all))
	}
	return units, nil
}

// Restart restarts a unit, and returns when its manager says that this is done:
// the old process is gone, and the new one has started. The error says with what
// result, if that is not done.
func (m *Manager) Restart(ctx context.Context, name string) error {
	done := make(chan string, 1)
	if _, err := m.conn.RestartUnitContext(ctx, name, "replace", done); err != nil {
		return err
	}
	select {
	case result := <-done:
		if result != "done" {
			return fmt.Errorf("its job ended with %q", result)
		}
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// unitOf makes a Unit of its properties.
func unitOf(name string, all map[string]any) Unit {
	u := Unit{
		Name: name, Load: property[string](all, "LoadState"), Active: property[string](all, "ActiveState"),
		Result: property[string](all, "Result"), Type: property[string](all, "Type"),
		MainPID: int(property[uint32](all, "MainPID")), Restarts: int(property[uint32](all, "NRestarts")),
		FileLimit: property[uint64](all, "LimitNOFILE"), NeedsReload: property[bool](all, "NeedDaemonReload"),
		Environment: slices.Clone(property[[]string](all, "Environment")),
	}
	for _, command := range property[[][]any](all, "ExecStart") { // path, arguments, and what became of it
		if len(command) > 1 {
			u.Command, _ = command[1].([]string)
		}
	}
	for _, file := range property[[][]any](all, "EnvironmentFiles") { // path, and whether it may be missing
		if len(file) == 0 {
			continue
		}
		path, _ := file[0].(string)
		lines, err := environmentFile(path)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			u.Unread = append(u.Unread, path)
		}
		u.Environment = append(u.Environment, lines...)
	}
	return u
}

// property returns a property, or what stands for none.
func property[T any](all map[string]any, name string) T {
	v, _ := all[name].(T)
	return v
}

// environmentFile returns the lines NAME=value of a file, without quotes.
func environmentFile(path string) ([]string, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	var env []string
	for lines := bufio.NewScanner(f); lines.Scan(); {
		line := strings.TrimSpace(lines.Text())
		name, value, ok := strings.Cut(line, "=")
		if !ok || strings.HasPrefix(line, "#") || strings.HasPrefix(line, ";") {
			continue
		}
		env = append(env, strings.TrimSpace(name)+"="+unquoted(strings.TrimSpace(value)))
	}
	return env, nil
}

func unquoted(value string) string {
	if n := len(value); n >= 2 && value[0] == value[n-1] && (value[0] == '"' || value[0] == '\'') {
		return value[1 : n-1]
	}
	return value
}

// Arguments returns the words of the unit's command, with variables replaced as
// its manager does: ${NAME} within a word, and $NAME as a word of its own, which
// becomes as many words as it has.
func (u *Unit) Arguments() []string {
	values := u.variables()
	var words []string
	for _, word := range u.Command {
		if name, alone := strings.CutPrefix(word, "$"); alone && !strings.HasPrefix(name, "{") {
			words = append(words, strings.Fields(values[name])...)
			continue
		}
		words = append(words, expand(word, values))
	}
	return words
}

// Variable returns what a variable of the unit's environment stands for; nothing
// if there is no such.
func (u *Unit) Variable(name string) string { return u.variables()[name] }

func (u *Unit) variables() map[string]string {
	values := map[string]string{}
	for _, line := range u.Environment {
		name, value, _ := strings.Cut(line, "=")
		values[name] = value
	}
	return values
}

// expand replaces each ${NAME} in a word.
func expand(word string, values map[string]string) string {
	var out strings.Builder
	for {
		before, rest, found := strings.Cut(word, "${")
		name, after, closed := strings.Cut(rest, "}")
		if !found || !closed {
			out.WriteString(word)
			return out.String()
		}
		out.WriteString(before + values[name])
		word = after
	}
}

// Option returns the value of an option of the unit's command, in either
// spelling: --port 1 or --port=1. The last one counts.
func (u *Unit) Option(name string) string {
	value := ""
	words := u.Arguments()
	for i, word := range words {
		if v, ok := strings.CutPrefix(word, name+"="); ok {
			value = v
		} else if word == name && i+1 < len(words) {
			value = words[i+1]
		}
	}
	return value
}

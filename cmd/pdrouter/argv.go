package main

import (
	"errors"
	"fmt"
	"regexp"
	"strings"

	"github.com/spf13/pflag"
)

// normalise brings args into the one form that pflag reads: --name=value, one
// value each. It joins what smg's users write with blanks, --prefill URL 8998
// and --request-id-headers a b, and reports every token that is no flag of
// flags, with the nearest one that is. Tokens at fault are left out.
func normalise(flags *pflag.FlagSet, args []string) ([]string, error) {
	l := argLine{flags: flags, rest: args}
	for len(l.rest) > 0 {
		l.next()
	}
	return l.out, errors.Join(l.faults...)
}

// An argLine is a command line half read.
type argLine struct {
	flags  *pflag.FlagSet
	rest   []string
	out    []string
	faults []error
	after  string // the last flag, with what may follow it
}

// next reads one flag and its values, or one token that is at fault.
func (l *argLine) next() {
	token := l.rest[0]
	l.rest = l.rest[1:]
	if !isFlag(token) {
		l.fault("unexpected argument %q%s", token, l.after)
		return
	}
	name, text, joined := strings.Cut(strings.TrimLeft(token, "-"), "=")
	flag := l.flags.Lookup(name)
	if token == "-h" {
		flag = l.flags.Lookup("help")
	}
	switch {
	case flag == nil || strings.HasPrefix(token, "---"):
		l.unknown(token, name)
	case joined:
		l.add(flag, text, "")
	case takes(flag) == takesNone:
		l.add(flag, "true", "")
	default:
		l.values(flag)
	}
}

// values reads what follows flag.
func (l *argLine) values(flag *pflag.Flag) {
	many, pair := takes(flag) == takesMany, takes(flag) == takesPair
	if len(l.rest) == 0 || strings.HasPrefix(l.rest[0], "--") || many && isFlag(l.rest[0]) {
		l.fault("--%s: needs a value", flag.Name)
		return
	}
	switch {
	case many:
		for len(l.rest) > 0 && !isFlag(l.rest[0]) {
			l.add(flag, l.take(), "")
		}
	case pair:
		text := l.take()
		if len(l.rest) > 0 && !strings.Contains(text, ",") && isPort(l.rest[0]) {
			text += "," + l.take()
		}
		l.add(flag, text, ": after its URL only a bootstrap port or none may stand")
	default:
		l.add(flag, l.take(), "")
	}
}

// take returns the next token and goes on behind it.
func (l *argLine) take() string {
	token := l.rest[0]
	l.rest = l.rest[1:]
	return token
}

// add puts flag with its value out. hint is for a token that follows and
// belongs to nothing.
func (l *argLine) add(flag *pflag.Flag, text, hint string) {
	l.out = append(l.out, "--"+flag.Name+"="+text)
	l.after = " after --" + flag.Name + hint
}

// unknown reports token and skips what follows it, which are probably its values.
func (l *argLine) unknown(token, name string) {
	flag, _, _ := strings.Cut(token, "=")
	l.fault("unknown flag %s; did you mean --%s?", flag, nearest(name, flagNames(l.flags)))
	for len(l.rest) > 0 && !isFlag(l.rest[0]) {
		l.take()
	}
	l.after = ""
}

func (l *argLine) fault(format string, args ...any) {
	l.faults = append(l.faults, fmt.Errorf(format, args...))
}

// isFlag reports whether token begins a flag. A negative number does not.
func isFlag(token string) bool {
	return len(token) > 1 && token[0] == '-' && (token[1] < '0' || token[1] > '9')
}

// isPort reports whether token was meant to be a bootstrap port.
func isPort(token string) bool {
	return regexp.MustCompile(`^(-?[0-9]+|(?i:none))$`).MatchString(token)
}

// takes returns what follows flag on the command line.
func takes(flag *pflag.Flag) arity {
	switch b, ok := flag.Value.(*bound); {
	case ok:
		return b.takes
	case flag.NoOptDefVal != "":
		return takesNone
	}
	return takesOne
}

// flagNames returns the names in flags: those of --help first, so that of two
// that are equally near the one that does something is named.
func flagNames(flags *pflag.FlagSet) []string {
	var shown, hidden []string
	flags.VisitAll(func(f *pflag.Flag) {
		if f.Hidden {
			hidden = append(hidden, f.Name)
		} else {
			shown = append(shown, f.Name)
		}
	})
	return append(shown, hidden...)
}

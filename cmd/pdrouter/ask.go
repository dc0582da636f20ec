package main

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"pdrouter/setup"
)

// An asker asks a person on a terminal. After the first error, which is that of a
// person who has left, it asks no more.
type asker struct {
	in  *bufio.Reader
	out io.Writer
	err error
}

func newAsker(in io.Reader, out io.Writer) *asker { return &asker{in: bufio.NewReader(in), out: out} }

// text asks until the answer passes check. Nothing stands for def, if there is one.
func (a *asker) text(question, def string, check func(string) error) string {
	for a.err == nil {
		hint := ""
		if def != "" {
			hint = " [" + def + "]"
		}
		fmt.Fprintf(a.out, "%s%s: ", question, hint)
		line, err := a.in.ReadString('\n')
		if err != nil {
			fmt.Fprintln(a.out)
			a.err = errors.New("not told what was asked for; nothing was written")
			return ""
		}
		answer := strings.TrimSpace(line)
		if answer == "" {
			answer = def
		}
		if err := check(answer); err != nil {
			fmt.Fprintf(a.out, "  %v\n", err)
			continue
		}
		return answer
	}
	return ""
}

// oneOf asks for one of several words, of which the first is likely.
func (a *asker) oneOf(question string, words ...string) string {
	return a.text(question+" ("+strings.Join(words, ", ")+")", words[0], func(answer string) error {
		if !slices.Contains(words, answer) {
			return errors.New("one of " + strings.Join(words, ", "))
		}
		return nil
	})
}

// yes asks whether something is to be done.
func (a *asker) yes(question string) bool {
	answer := a.text(question+" (yes, no)", "yes", func(answer string) error {
		if !slices.Contains([]string{"yes", "y", "no", "n"}, strings.ToLower(answer)) {
			return errors.New("yes or no")
		}
		return nil
	})
	return strings.HasPrefix(strings.ToLower(answer), "y")
}

func notEmpty(answer string) error {
	if answer == "" {
		return errors.New("it is needed")
	}
	return nil
}

func isRange(answer string) error {
	_, err := setup.ParseRange(answer)
	return err
}

package main

import (
	"errors"
	"fmt"
	"io"
	"strings"

	"go.uber.org/zap/zapcore"
)

// exitConfig is EX_CONFIG of sysexits.h: what the process was told cannot work,
// so starting it again will not help (RestartPreventExitStatus=78).
const exitConfig = 78

// A configFault is an error that only a change of flags, file or host cures.
type configFault struct{ error }

// Unwrap returns the fault itself.
func (f configFault) Unwrap() error { return f.error }

// asConfigFault marks err as a fault of the configuration. Nil stays nil.
func asConfigFault(err error) error {
	if err == nil {
		return nil
	}
	return configFault{err}
}

// report writes err to w, one line for each fault that it joins, and returns
// the status to exit with.
func report(w io.Writer, err error) int {
	if err == nil {
		return 0
	}
	if errors.Is(err, errFaults) {
		return 1 // they have been told
	}
	urgent := ""
	if isJournal(w) {
		urgent = priority(zapcore.ErrorLevel)
	}
	for _, line := range faultLines(err) {
		fmt.Fprintln(w, urgent+"pdrouter:", line)
	}
	if fault := (configFault{}); errors.As(err, &fault) {
		return exitConfig
	}
	return 1
}

// faultLines returns the lines of err that are not empty.
func faultLines(err error) []string {
	if err == nil {
		return nil
	}
	return strings.FieldsFunc(err.Error(), func(r rune) bool { return r == '\n' })
}

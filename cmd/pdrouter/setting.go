package main

import "pdrouter/workers"

// A setting is one thing that an operator may set: a flag, and a key of the
// same name in the file.
type setting struct {
	name  string
	value value // nil: what is given is thrown away
	usage string

	// group is the heading of --help under which the setting stands.
	group string

	// choices are the words to choose from, for completion.
	choices []string

	// reloads tells that a reload puts it in force; else it needs a restart.
	reloads bool

	takes    arity
	standing standing

	// reason says, of a setting that is not acted on, what is not done and why.
	reason string

	// policies are those that read the setting, if not all do.
	policies []string

	// secret settings are never printed, not even when they are wrong.
	secret bool

	// hint settings help to find the value of another one, which is what is
	// printed as the effective configuration.
	hint bool
}

// A standing says what becomes of a setting that is given.
type standing uint8

const (
	enforced standing = iota
	later             // understood; its function is not in this release
	unneeded          // smg has it; there is nothing here that it could change
)

// An arity says what follows a flag on the command line.
type arity uint8

const (
	asValue   arity = iota // what arityOf says of the value
	takesOne               // --port 30001
	takesNone              // --log-json
	takesMany              // --prometheus-duration-buckets 0.1 1 5
	takesPair              // --prefill URL, or --prefill URL 8998
)

// arityOf returns what follows the flag of v. A list whose words must come one
// by one, each after its own flag, is said to be takesOne by its setting.
func arityOf(v value) arity {
	switch v := v.(type) {
	case *scalar[bool]:
		return takesNone
	case *list[string], *list[float64]:
		return takesMany
	case *workerList:
		if v.role == workers.Prefill {
			return takesPair
		}
	}
	return takesOne
}

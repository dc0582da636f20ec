package doctor

import (
	"fmt"
	"slices"
)

// A Status says how bad a finding is.
type Status string

// The statuses, from good to bad.
const (
	OK      Status = "ok"
	Unknown Status = "unknown" // it cannot be known from here
	Warning Status = "warning"
	Fault   Status = "fault"
)

// A Finding is what a check found.
type Finding struct {
	Check  string `json:"check"` // a part of the examination, as engines
	Status Status `json:"status"`
	Where  string `json:"where,omitempty"` // a worker, a flag, a file
	What   string `json:"what"`
	Do     string `json:"do,omitempty"` // what is to be done about it
}

// The checks, in the order in which they are told.
const (
	Configuration = "configuration"
	Engines       = "engines"
	Pairs         = "pairs"
	HandOffs      = "hand-offs"
	KeepAlive     = "keep-alive"
	Clocks        = "clocks"
	Listeners     = "listeners"
	Limits        = "limits"
	Files         = "files"
	Service       = "service"
	Running       = "running router"
)

// Checks returns the checks in the order in which they are told.
func Checks() []string {
	return []string{Configuration, Engines, Pairs, HandOffs, KeepAlive, Clocks, Listeners, Limits, Files, Service, Running}
}

// Count returns how many findings have a status.
func Count(all []Finding, status Status) int {
	n := 0
	for _, f := range all {
		if f.Status == status {
			n++
		}
	}
	return n
}

// sorted puts findings in the order of their checks, and leaves those of one as
// they are.
func sorted(all []Finding) []Finding {
	order := Checks()
	slices.SortStableFunc(all, func(a, b Finding) int { return slices.Index(order, a.Check) - slices.Index(order, b.Check) })
	return all
}

// A chart is where the findings of one check are written.
type chart struct {
	check string
	all   []Finding
}

func (c *chart) note(status Status, where, do, format string, args ...any) {
	c.all = append(c.all, Finding{c.check, status, where, fmt.Sprintf(format, args...), do})
}

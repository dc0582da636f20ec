package main

import (
	"fmt"
	"strings"

	"pdrouter/doctor"
)

// findingColour is the colour of a status on a terminal.
func findingColour(status doctor.Status) string {
	switch status {
	case doctor.OK:
		return green
	case doctor.Warning:
		return yellow
	case doctor.Fault:
		return red
	case doctor.Unknown:
	}
	return cyan
}

// tellFindings writes findings for people, under the names of their checks.
func tellFindings(shown *screen, found []doctor.Finding) {
	for _, check := range doctor.Checks() {
		begun := false
		for _, f := range found {
			if f.Check != check {
				continue
			}
			if !begun {
				shown.say("%s", shown.paint(bold, strings.ToUpper(check[:1])+check[1:]))
				begun = true
			}
			tellFinding(shown, f)
		}
	}
	parts := []string{}
	for _, status := range []doctor.Status{doctor.OK, doctor.Unknown, doctor.Warning, doctor.Fault} {
		if n := doctor.Count(found, status); n > 0 {
			parts = append(parts, shown.paint(findingColour(status), fmt.Sprintf("%d %s", n, status)))
		}
	}
	shown.say("\n%d findings: %s", len(found), strings.Join(parts, ", "))
}

func tellFinding(shown *screen, f doctor.Finding) {
	text := f.What
	if f.Where != "" {
		text = f.Where + ": " + f.What
	}
	shown.say("  %s  %s", shown.paint(findingColour(f.Status), fmt.Sprintf("%-7s", f.Status)), text)
	if f.Do != "" && f.Status != doctor.OK {
		shown.say("           to do: %s", f.Do)
	}
}

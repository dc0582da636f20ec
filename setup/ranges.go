package setup

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// ParseRange reads whole numbers as in 0-3,6. None occurs twice.
func ParseRange(text string) ([]int, error) {
	var all []int
	for part := range strings.SplitSeq(text, ",") {
		first, last, ranged := strings.Cut(strings.TrimSpace(part), "-")
		from, err := strconv.Atoi(first)
		to := from
		if err == nil && ranged {
			to, err = strconv.Atoi(last)
		}
		if err != nil || from < 0 || to < from || to-from > 65535 {
			return nil, fmt.Errorf("%q is not of the form 0-3,6", text)
		}
		for n := from; n <= to; n++ {
			if slices.Contains(all, n) {
				return nil, fmt.Errorf("%q has %d twice", text, n)
			}
			all = append(all, n)
		}
	}
	return all, nil
}

// FormatRange is the inverse of ParseRange.
func FormatRange(all []int) string {
	var parts []string
	for i := 0; i < len(all); {
		j := i
		for j+1 < len(all) && all[j+1] == all[j]+1 {
			j++
		}
		part := strconv.Itoa(all[i])
		if j > i {
			part += "-" + strconv.Itoa(all[j])
		}
		parts = append(parts, part)
		i = j + 1
	}
	return strings.Join(parts, ",")
}

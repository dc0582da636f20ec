package setup

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// A State says how a file is to what is there.
type State uint8

// The states.
const (
	New     State = iota // nothing is there
	Same                 // it is there as it would be written
	Shipped              // the example is there that the package brings
	Differs              // something else is there
)

// Example is the line by which the example is known.
const Example = "# The package's example: pdrouter init writes its own in place of it."

// Compare returns how f is to what is there, and what differs: lines that are
// there with a minus, those that would be with a plus.
func Compare(f File) (State, []string, error) {
	there, err := os.ReadFile(f.Path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return New, nil, nil
	case err != nil:
		return Differs, nil, err
	case string(there) == f.Text:
		return Same, nil, nil
	case slices.Contains(strings.Split(string(there), "\n"), Example):
		return Shipped, nil, nil
	}
	return Differs, difference(strings.Split(string(there), "\n"), strings.Split(f.Text, "\n")), nil
}

// Put writes f. What else is there stays as it is, which is an error, or with
// replace is kept under another name, which is returned.
func Put(f File, replace bool) (kept string, err error) {
	if err := os.MkdirAll(filepath.Dir(f.Path), 0o755); err != nil {
		return "", err
	}
	if replace {
		if kept, err = keep(f.Path); err != nil {
			return "", err
		}
	}
	file, err := os.OpenFile(f.Path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
	if err != nil {
		return kept, err
	}
	_, err = file.WriteString(f.Text)
	return kept, errors.Join(err, file.Close())
}

// keep gives what is at path another name, that nothing has.
func keep(path string) (string, error) {
	if _, err := os.Lstat(path); errors.Is(err, fs.ErrNotExist) {
		return "", nil
	}
	for n := 1; ; n++ {
		name := path + ".before-init"
		if n > 1 {
			name = fmt.Sprintf("%s-%d", name, n)
		}
		err := os.Link(path, name) // unlike a rename, it replaces nothing
		if errors.Is(err, fs.ErrExist) {
			continue
		}
		if err != nil {
			return "", err
		}
		return name, os.Remove(path)
	}
}

// difference returns the lines of a and b that are not in both, by their longest
// common subsequence.
func difference(a, b []string) []string {
	common := make([][]int, len(a)+1) // of a[i:] and b[j:]
	for i := range common {
		common[i] = make([]int, len(b)+1)
	}
	for i, line := range slices.Backward(a) {
		for j, other := range slices.Backward(b) {
			if line == other {
				common[i][j] = common[i+1][j+1] + 1
			} else {
				common[i][j] = max(common[i+1][j], common[i][j+1])
			}
		}
	}
	var lines []string
	i, j := 0, 0
	for i < len(a) || j < len(b) {
		switch {
		case i < len(a) && j < len(b) && a[i] == b[j]:
			i++
			j++
		case j == len(b) || i < len(a) && common[i+1][j] >= common[i][j+1]:
			lines = append(lines, "-"+a[i])
			i++
		default:
			lines = append(lines, "+"+b[j])
			j++
		}
	}
	return lines
}

package main

// nearest returns the name of known that name was most likely meant to be: the
// one that the fewest typing errors turn into name. The first wins a tie.
func nearest(name string, known []string) string {
	best, least := "", -1
	for _, k := range known {
		if d := typos(name, k); least < 0 || d < least {
			best, least = k, d
		}
	}
	return best
}

// typos counts the typing errors between a and b: a letter too many, too few,
// another one, or two neighbours swapped.
func typos(a, b string) int {
	// rows holds three rows of the usual table: a swap looks two rows back.
	rows := [3][]int{make([]int, len(b)+1), make([]int, len(b)+1), make([]int, len(b)+1)}
	for j := range rows[0] {
		rows[0][j] = j
	}
	for i := 1; i <= len(a); i++ {
		row, above, twoAbove := rows[i%3], rows[(i-1)%3], rows[(i+1)%3]
		row[0] = i
		for j := 1; j <= len(b); j++ {
			other := above[j-1]
			if a[i-1] != b[j-1] {
				other++
			}
			row[j] = min(above[j]+1, row[j-1]+1, other)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				row[j] = min(row[j], twoAbove[j-2]+1)
			}
		}
	}
	return rows[len(a)%3][len(b)]
}

package main

import (
	"fmt"
	"io"
	"strings"
	"text/tabwriter"

	"pdrouter/bench"
)

// A table is what is printed, of these traces.
type table struct {
	conversation, synthetic []bench.Request
	whole                   bool // they are the whole traces, for which goals were set
	seeds                   int
	out                     io.Writer

	goals, missed int // lines
}

// print replays everything and prints a part as soon as it is there.
func (t *table) print() error {
	t.introduce()
	for _, p := range t.parts() {
		if err := t.printPart(p); err != nil {
			return err
		}
	}
	if t.whole {
		t.printLongest()
		fmt.Fprintf(t.out, "\n%d of %d lines are as they are to be.\n", t.goals-t.missed, t.goals)
	}
	return nil
}

// introduce says what the figures are of.
func (t *table) introduce() {
	v := bench.Published()
	fmt.Fprintf(t.out, "%d prefill workers with %.0f M tokens of KV each, %g times as fast as the traces, unless a\n", v.Workers, float64(v.Engine.KVTokens)/1e6, v.Speed)
	fmt.Fprintf(t.out, "line says otherwise. TTFT in seconds. Means of %d seeds.\n", t.seeds)
	if !t.whole {
		fmt.Fprintf(t.out, "Five minutes of the conversation trace, in which no hit ratio can be above %.3f.\n", bench.Ceiling(t.conversation))
		fmt.Fprintln(t.out, "What was to be reached is of the whole traces: give their directory (make help).")
		return
	}
	fmt.Fprintln(t.out, "In brackets what was published, or is to be reached to within 2 %.")
	fmt.Fprintf(t.out, "No hit ratio can be above %.3f (conversation) and %.3f (synthetic).\n", bench.Ceiling(t.conversation), bench.Ceiling(t.synthetic))
}

func (t *table) printPart(p part) error {
	var text strings.Builder
	columns := tabwriter.NewWriter(&text, 0, 0, 2, ' ', 0)
	fmt.Fprintf(columns, "%s\thit\tmean TTFT\timbalance", strings.Repeat(" ", titleWidth))
	if t.whole {
		fmt.Fprint(columns, "\tsynthetic: hit\tmean TTFT\t")
	}
	fmt.Fprintln(columns)
	bench.InOrder(p.lines, func(_ int, l line) {
		fmt.Fprintf(columns, "%s\t%s", l.title, cells(l.conversation, l.wanted))
		if t.whole {
			synthetic := "\t"
			if l.synthetic.Requests > 0 {
				synthetic, _ = cutLast(cells(l.synthetic, l.wantedSynthetic))
			}
			fmt.Fprintf(columns, "\t%s\t%s", synthetic, t.verdict(l))
		}
		fmt.Fprintln(columns)
	})
	if err := columns.Flush(); err != nil {
		return err
	}
	fmt.Fprintf(t.out, "\n%s\n", p.title)
	for l := range strings.Lines(text.String()) {
		if _, err := fmt.Fprintln(t.out, strings.TrimRight(l, " \n")); err != nil {
			return err
		}
	}
	return nil
}

// titleWidth is that of the longest title.
const titleWidth = 31

// longest is how many seeds the longest TTFT is a mean of: it is that of one
// request.
const longest = 8

// within is by which share it may be longer.
const within = 0.02

// printLongest says that whoever is kept back does not wait longer for it.
func (t *table) printLongest() {
	var most [2]float64
	jobs := make([]func() bench.Row, len(most))
	for i, name := range []string{"cache_aware", bench.AtOnce} {
		v := bench.Published()
		jobs[i] = func() bench.Row { return v.Means(t.conversation, policyOf(name, v.Engine), longest) }
	}
	bench.InOrder(jobs, func(i int, r bench.Row) { most[i] = r.TTFTMax })
	said := "reached"
	if t.goals++; most[0] > most[1]*(1+within) {
		said = "MISSED"
		t.missed++
	}
	fmt.Fprintf(t.out, "\nThe longest TTFT, mean of %d seeds: %.1f s bound late (≤%.1f, that at once): %s\n", longest, most[0], most[1], said)
}

// cells are hit ratio, mean TTFT and imbalance, each with what is wanted.
func cells(r bench.Row, g bench.Goal) string {
	least, most := "≥", "≤"
	if g.Published {
		least, most = "", ""
	}
	return cell(r.HitRatio, g.Hit, 3, least) + "\t" + cell(r.TTFTMean, g.Mean, 2, most) + "\t" + cell(r.Imbalance, g.Imbalance, 2, most)
}

func cell(got, want float64, digits int, sign string) string {
	if want == 0 {
		return fmt.Sprintf("%.*f", digits, got)
	}
	return fmt.Sprintf("%.*f (%s%.*f)", digits, got, sign, digits, want)
}

// cutLast returns cells without the last, and the last.
func cutLast(cells string) (before, last string) {
	i := strings.LastIndexByte(cells, '\t')
	return cells[:i], cells[i+1:]
}

// verdict says whether a line is as it is to be.
func (t *table) verdict(l line) string {
	if l.wanted == (bench.Goal{}) && l.wantedSynthetic == (bench.Goal{}) {
		return ""
	}
	t.goals++
	missed := l.wanted.Missed(l.conversation)
	if l.synthetic.Requests > 0 {
		for _, m := range l.wantedSynthetic.Missed(l.synthetic) {
			missed = append(missed, "synthetic "+m)
		}
	}
	if len(missed) > 0 {
		t.missed++
		return "MISSED: " + strings.Join(missed, ", ")
	}
	if l.wanted.Published {
		return "as published"
	}
	return "reached"
}

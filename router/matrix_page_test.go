package router

import (
	"flag"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"pdrouter/workers"
)

// update makes the golden tests write what they would compare.
var update = flag.Bool("update", false, "write golden files")

// TestFaultsPage compares docs/faults.md with the fault matrix. After a change
// of that: go test ./router -run FaultsPage -update.
func TestFaultsPage(t *testing.T) {
	const path = "../docs/faults.md"
	want := faultsPage()
	if *update {
		if err := os.WriteFile(path, []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	got, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if string(got) != want {
		t.Errorf("%s does not show the fault matrix; run this test with -update and look at the change", path)
	}
}

const faultsIntro = `# What happens when an engine fails

This page is made from the table of the fault matrix, by which a test breaks engines in every way named here: in the prefill leg, the decode leg and both, in the dialects %s, for JSON answers and for streams. %d cells can occur; each is run beside a pair that is well and without one.

In every cell:

- **The client is told the truth, and soon.** A status of 200 means the whole answer, or, where a stream had begun, what came of it and an error event in place of ` + "`[DONE]`" + `. Half an event is never passed on. Messages name no host and no room.
- **Tried again** means: nothing of the answer has been sent yet, so another pair is asked, without the worker at fault (without the pair, if that is), as long as there is another. If one is well, the client gets its answer, with status 200. The status in the table is what the client gets when all attempts (` + "`--retry-max-retries`" + `) came to this end; ours then says how many there were.
- **The other leg** is cancelled within 1 s, and its worker is not blamed. Engines that notice a closed connection late (SGLang) are told by ` + "`/abort_request`" + `, and so is the sick one where the table says so. If prefill comes first, decode is not asked when it fails.
- **Both legs sick**: in ` + "`sglang`" + ` whichever fails first decides, and a leg that failed by itself before it was cancelled is blamed too; in ` + "`vllm-nixl`" + ` it is prefill, and decode's fault shows when another prefill worker has answered.
- **Hand-off keys** belong to one attempt. What prefill holds for a decode that did not take it (` + "`vllm-nixl`" + `) is released through another decode worker, or counted in ` + "`pdrouter_orphaned_handoffs_total`" + `.
- **Nothing is left**: every lease has ended once, no request is under way, and no body is held.

A code with *leg* in it begins with ` + "`prefill`" + ` or ` + "`decode`" + `. Blame is what the breakers are told. The *worker* and the *pair* have each a breaker of their own; a lost *connection* counts against the worker, also if it is the last one of its role. A *busy* worker has done nothing wrong: it gets no new request for as long as it asked for, 5 s at most.

Limits of time: a stream has ` + "`--first-byte-timeout-secs`" + ` up to its first token, and then ` + "`--stream-idle-timeout-secs`" + ` between two reads; a JSON answer has ` + "`--first-byte-timeout-secs`" + ` up to prefill's answer, and ` + "`--request-timeout-secs`" + ` in all. What such a limit ends before the first byte is not tried again: the client has waited for as long as it was to wait.
`

func faultsPage() string {
	var b strings.Builder
	can := 0
	for _, c := range cells() {
		if c.never() == "" {
			can++
		}
	}
	fmt.Fprintf(&b, faultsIntro, "`"+strings.Join(both, "` and `")+"`", can)
	for _, ch := range chapters() {
		fmt.Fprintf(&b, "\n## %s\n\n| fault | in the leg of | the client is told | tried again | blamed | told to abort (`sglang`) |\n|---|---|---|---|---|---|\n", ch.title)
		writeRows(&b, ch.faults, func(c cell) string {
			if c.never() != "" {
				return ""
			}
			return c.text()
		})
	}
	b.WriteString("\n## What cannot occur\n\nNeither can a cell of both legs where one of its legs cannot.\n\n| fault | in the leg of | why not |\n|---|---|---|\n")
	for _, ch := range chapters() {
		writeRows(&b, ch.faults, cell.never)
	}
	return b.String()
}

// A row is a row of a table: faults in a leg, or in several, of which the same
// is true.
type row struct{ faults, legs, text string }

// writeRows writes what is to be said of each fault in each leg, "" being
// nothing. What is the same of faults that follow one another is said once.
func writeRows(b *strings.Builder, faults []fault, say func(cell) string) {
	var all []row
	for _, f := range faults {
		for _, r := range f.rows(say) {
			i := slices.IndexFunc(all, func(other row) bool { return other.legs == r.legs && other.text == r.text })
			if i < 0 {
				all = append(all, r)
			} else {
				all[i].faults = joined(all[i].faults, r.faults)
			}
		}
	}
	for _, r := range all {
		fmt.Fprintf(b, "| %s | %s | %s |\n", r.faults, r.legs, r.text)
	}
}

// leg names the leg of a cell that is about one.
func (c cell) leg() string {
	switch {
	case c.sick[workers.Prefill]:
		return "prefill"
	case c.stream:
		return "decode, stream"
	default:
		return "decode, JSON"
	}
}

// joined adds a name to others. What they begin with is said once.
func joined(names, name string) string {
	before, place, found := strings.Cut(name, " after ")
	if found && strings.HasPrefix(names, before) {
		name = place
	}
	return names + "; " + name
}

// rows returns the rows of a fault: one for the legs of which the same is said.
func (f fault) rows(say func(cell) string) []row {
	var rows []row
	for _, c := range []cell{{fault: f, sick: [2]bool{true, false}}, {fault: f, sick: [2]bool{false, true}}, {fault: f, sick: [2]bool{false, true}, stream: true}} {
		text := say(c)
		switch last := len(rows) - 1; {
		case text == "":
		case last >= 0 && rows[last].text == text:
			rows[last].legs += "; " + c.leg()
		default:
			rows = append(rows, row{f.name, c.leg(), text})
		}
	}
	for i := range rows {
		switch rows[i].legs {
		case "prefill; decode, JSON; decode, stream":
			rows[i].legs = "either"
		case "prefill; decode, JSON":
			rows[i].legs = "either, JSON"
		case "decode, JSON; decode, stream":
			rows[i].legs = "decode"
		}
	}
	return rows
}

// text says what follows, in the words of the page.
func (c cell) text() string {
	role := workers.Prefill
	if c.sick[workers.Decode] {
		role = workers.Decode
	}
	s := c.sequel(role)
	again, told := "no", "no"
	if s.again {
		again = "yes"
	}
	if s.told {
		told = "yes"
	}
	return strings.Join([]string{c.client(role, s), again, c.blamed(role), told}, " | ")
}

// client says what the client is told.
func (c cell) client(role workers.Role, s sequel) string {
	code := strings.Replace("`"+s.code+"`", "`_", "`*leg*_", 1)
	code = strings.Replace(code, "`*leg*", "*leg*`", 1)
	switch s.shape {
	case whole:
		return "the whole answer"
	case theirs:
		return fmt.Sprintf("%d, the engine's own words", s.status)
	case cut:
		return "200, what came, and " + code + " as its last event"
	case asItIs, unread:
		return "200, the stream as it came"
	case envelope:
	}
	if s.late {
		one, other := c.in(both[0]).endBy(role).code, c.in(both[1]).endBy(role).code
		if one == other {
			return "504 `" + one + "`"
		}
		return "504 `" + one + "`; in `" + both[1] + "` `" + other + "`"
	}
	return fmt.Sprintf("%d %s", s.status, code)
}

// blamed says who is, in the words of the page.
func (c cell) blamed(role workers.Role) string {
	words := map[string]string{
		"ok": "nobody", "busy": "nobody: it is busy", "canceled": "nobody",
		"unreachable": "the worker: its connection", "failed": "the worker", "handoff": "the pair",
	}
	s := c.sequel(role)
	if !s.late {
		return words[s.blame]
	}
	one, other := words[c.in(both[0]).endBy(role).blames[role]], words[c.in(both[1]).endBy(role).blames[role]]
	if one == other {
		return one
	}
	return one + "; in `" + both[1] + "` " + other
}

// in returns the same cell in a dialect.
func (c cell) in(dialect string) cell {
	c.dialect = dialect
	return c
}

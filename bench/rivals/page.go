package main

import (
	"fmt"
	"os"
	"strings"
)

// A page is the text of docs/benchmarks.md, as it grows.
type page struct {
	strings.Builder

	all    *results
	losses []string
}

// writePage writes the whole page.
func writePage(path string, all *results) error {
	p := &page{all: all}
	p.say("# Ours beside other routers\n")
	p.say("`make rivals` writes this page; do not edit it. All run in turns before the same engines, as they come, with their defaults: `bench/rivals` says how. What holds on another machine are the ratios.\n")
	p.head()
	p.goals()
	for _, m := range all.Overhead {
		p.overhead(m)
	}
	p.faults()
	p.routing()
	p.losing()
	return os.WriteFile(path, []byte(strings.TrimRight(p.String(), "\n")+"\n"), 0o644)
}

func (p *page) say(format string, args ...any) { fmt.Fprintf(p, format+"\n", args...) }

// row writes a line of a table.
func (p *page) row(cells ...string) {
	for i, c := range cells {
		cells[i] = strings.ReplaceAll(c, "|", "\\|")
	}
	p.say("| %s |", strings.Join(cells, " | "))
}

// heading writes the first lines of a table.
func (p *page) heading(cells ...string) {
	p.row(cells...)
	p.say("|%s", strings.Repeat("---|", len(cells)))
}

func (p *page) head() {
	var names []string
	for _, name := range rivals() {
		names = append(names, version(name))
	}
	m := p.all.Machine
	p.say("Versions: pdrouter of this commit's tree, %s. Machine: %d cores, %.0f GB of memory, Linux %s, %s.\n",
		strings.Join(names, ", "), m.Cores, m.MemoryGB, m.Kernel, m.Go)
	p.heading("part", "measured", "load average before", "command")
	for _, part := range []string{partOverhead, partFaults, partRouting} {
		if when, ok := p.all.When[part]; ok {
			p.row(part, when, p.all.Loads[part], "`"+p.all.Commands[part]+"`")
		}
	}
	p.say("")
}

func (p *page) faults() {
	if len(p.all.Faults) == 0 {
		return
	}
	p.say("## Faults\n")
	p.say("Two prefill and two decode engines of package sim; router and engines are fresh for each line. Each client waits 10 s at most. vllm-router and the second pdrouter hand off by NIXL, the others as SGLang does.\n")
	cells := []string{"what happens", "held means"}
	for _, c := range contenders() {
		cells = append(cells, c.String())
	}
	p.heading(cells...)
	for _, v := range p.all.Faults {
		cells := []string{v.Title, v.Held}
		for _, c := range contenders() {
			cells = append(cells, v.Outcomes[c.String()].String())
		}
		p.row(cells...)
	}
	cells = []string{"held", ""}
	for _, c := range contenders() {
		n := p.held(c)
		cells = append(cells, fmt.Sprintf("%d of %d", n, len(p.all.Faults)))
		if c.Name == ours && n < len(p.all.Faults) {
			p.losses = append(p.losses, p.failed(c)...)
		}
	}
	p.row(cells...)
	p.say("")
}

func (o outcome) String() string {
	if o.Held {
		return "held: " + o.Figure
	}
	return "**not held**: " + o.Figure
}

// held returns how many scenarios a contender held.
func (p *page) held(c contender) (n int) {
	for _, v := range p.all.Faults {
		if v.Outcomes[c.String()].Held {
			n++
		}
	}
	return n
}

// failed says which it did not.
func (p *page) failed(c contender) (all []string) {
	for _, v := range p.all.Faults {
		if o := v.Outcomes[c.String()]; !o.Held {
			all = append(all, fmt.Sprintf("%s does not hold \"%s\": %s.", c, v.Title, o.Figure))
		}
	}
	return all
}

func (p *page) losing() {
	p.say("## Where ours loses\n")
	if len(p.losses) == 0 {
		p.say("Nowhere in these tables.")
	}
	for _, l := range p.losses {
		p.say("- %s", l)
	}
}

// lose notes where ours loses.
func (p *page) lose(lost bool, format string, args ...any) {
	if lost {
		p.losses = append(p.losses, fmt.Sprintf(format, args...))
	}
}

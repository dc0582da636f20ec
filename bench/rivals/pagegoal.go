package main

import "fmt"

// goals writes how ours stands to what it is to reach.
func (p *page) goals() {
	p.say("## Goals\n")
	p.heading("work", "goal", "got", "")
	if len(p.all.Overhead) > 0 {
		p.costGoals(p.all.Overhead[0])
	}
	if len(p.all.Faults) > 0 {
		c := contenders()[0]
		n, whole := p.held(c), len(p.all.Faults)
		p.goal(n == whole, "faults of the list held", fmt.Sprintf("all; smg held %d", p.held(contenders()[1])), fmt.Sprintf("%d of %d", n, whole))
	}
	p.trackGoals()
	p.say("")
}

// goal writes one line. A goal that is missed is a loss too.
func (p *page) goal(reached bool, work, goal, got string) {
	verdict := "reached"
	if !reached {
		verdict = "**missed**"
		p.lose(true, "Goal missed: %s: %s wanted, %s got.", work, goal, got)
	}
	p.row(work, goal, got, verdict)
}

// bareMost is what ours may cost, of the bare floor.
const bareMost = 1.4

func (p *page) costGoals(m measured) {
	for _, g := range []struct {
		workload, title string
		most            float64
	}{
		{"1kb", "1 KB, JSON", 0.33}, {"32kb", "32 KB, JSON", 0.40}, {"1mb", "1 MB, JSON", 0.22}, {"stream", "stream of 256 chunks", 0.21},
	} {
		p.ratio(m, g.workload, g.title, "smg", g.most)
		p.ratio(m, g.workload, g.title, "pooled", bareMost)
	}
	if smg := m.After["smg"]; smg > 0 {
		got := m.After["router"] / smg
		p.goal(got <= 0.15, "RSS after all of it", "at most 0.15 of smg", fmt.Sprintf("%.2f", got))
	}
	we, one := m.added("router")
	smg, other := m.added("smg")
	if one && other {
		p.goal(we <= max(0, 0.5*smg), "p99 of TTFT added, 200 requests a second", "at most 0.5 of smg", fmt.Sprintf("%.2f ms, smg %.2f ms", we, smg))
	}
}

func (p *page) ratio(m measured, workload, title, base string, most float64) {
	we, one := m.find(workload, "router")
	they, other := m.find(workload, base)
	if !one || !other || they.CPU == 0 {
		return
	}
	got := we.CPU / they.CPU
	p.goal(got <= most, title, fmt.Sprintf("at most %.2f CPU of %s", most, called(base)), fmt.Sprintf("%.2f", got))
}

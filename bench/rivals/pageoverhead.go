package main

import (
	"fmt"
	"math"
	"strings"
)

// works are the workloads as they stand in the tables.
func works() [][2]string {
	return [][2]string{
		{"1kb", "1 KB, JSON"},
		{"32kb", "32 KB, JSON"},
		{"1mb", "1 MB, JSON"},
		{"stream", "stream of 256 chunks"},
		{"paced", "64 chunks, one every 5 ms"},
		{"steady", "16 chunks, 200 requests a second"},
		{"open", "open streams"},
	}
}

// called is how a system of bench/overhead stands on the page.
func called(system string) string {
	switch system {
	case "router":
		return ours
	case "pooled":
		return "bare floor: two legs on pooled connections"
	case "floor":
		return "two legs on package exchange"
	case "two-leg":
		return "two legs on http.Transport"
	case "one-leg":
		return "ReverseProxy, one leg"
	}
	return system
}

// overhead writes the tables of one dialect.
func (p *page) overhead(m measured) {
	p.say("## Cost, hand-off as %s\n", m.Dialect)
	p.say("The router's process before two prefill and two decode engines that cost next to nothing (`bench/overhead`), %d requests at a time, medians of %d rounds of %g s; %d open streams with a token per second each, on a process that is fresh.\n",
		m.Concurrency, m.Rounds, m.Duration, m.Streams)
	p.say("CPU in microseconds for each request (open streams: for each token; and the most RSS), and RSS in MB when all rounds are over:\n")
	cells := []string{"router"}
	for _, w := range works() {
		cells = append(cells, w[1])
	}
	p.heading(append(cells, "open streams, RSS MB", "RSS after all, MB")...)
	for _, s := range m.systems() {
		cells := []string{called(s)}
		for _, w := range works() {
			cells = append(cells, m.cell(w[0], s, func(f figure) string { return fmt.Sprintf("%.0f", f.CPU) }))
		}
		cells = append(cells, m.cell("open", s, func(f figure) string { return fmt.Sprintf("%.0f", f.Peak) }))
		p.row(append(cells, fmt.Sprintf("%.0f", m.After[s]))...)
	}
	p.latency(m)
	for _, line := range m.Failed {
		p.say("Not measured: %s.\n", strings.TrimSpace(line))
	}
	p.compare(m)
}

// cell returns a figure as it is shown, or a dash.
func (m measured) cell(workload, system string, show func(figure) string) string {
	if f, ok := m.find(workload, system); ok {
		return show(f)
	}
	return "-"
}

// latency writes the times that clients saw.
func (p *page) latency(m measured) {
	p.say("\nTTFT (the answer's first byte) in ms, p50 / p99; ITL of the chunks that come every 5 ms; and what is added to p99 of TTFT over a request that goes past all routers:\n")
	cells := []string{"router"}
	for _, w := range works()[:6] {
		cells = append(cells, w[1])
	}
	p.heading(append(cells, "ITL", "added at 200/s")...)
	for _, s := range append(m.systems(), "direct") {
		cells := []string{called(s)}
		for _, w := range works()[:6] {
			cells = append(cells, m.cell(w[0], s, func(f figure) string { return fmt.Sprintf("%.2f / %.2f", f.TTFT[0], f.TTFT[1]) }))
		}
		cells = append(cells, m.cell("paced", s, func(f figure) string { return fmt.Sprintf("%.2f / %.2f", f.ITL[0], f.ITL[1]) }))
		added := "-"
		if ms, ok := m.added(s); ok {
			added = fmt.Sprintf("%.2f", ms)
		}
		p.row(append(cells, added)...)
	}
	p.say("")
}

// added returns what a system adds to p99 of TTFT, in ms.
func (m measured) added(system string) (float64, bool) {
	f, ok := m.find("steady", system)
	direct, known := m.find("steady", "direct")
	return f.TTFT[1] - direct.TTFT[1], ok && known && system != "direct"
}

// least returns the least RSS of a rival when all rounds are over.
func least(m measured) float64 {
	mb := math.Inf(1)
	for _, rival := range rivals() {
		if got, ok := m.After[rival]; ok {
			mb = min(mb, got)
		}
	}
	return mb
}

// compare notes each figure in which a rival is better than ours.
func (p *page) compare(m measured) {
	p.lose(m.After["router"] > least(m), "RSS when all rounds are over, %s: %.0f MB.", m.Dialect, m.After["router"])
	for _, rival := range rivals() {
		for _, w := range works() {
			we, one := m.find(w[0], "router")
			they, other := m.find(w[0], rival)
			if !one || !other {
				continue
			}
			p.lose(we.CPU > they.CPU, "%s, CPU: %.0f us, %s %.0f us.", w[1], we.CPU, rival, they.CPU)
			p.lose(we.TTFT[1] > they.TTFT[1], "%s, p99 of TTFT: %.2f ms, %s %.2f ms.", w[1], we.TTFT[1], rival, they.TTFT[1])
			p.lose(we.ITL[1] > they.ITL[1], "%s, p99 of ITL: %.2f ms, %s %.2f ms.", w[1], we.ITL[1], rival, they.ITL[1])
			p.lose(w[0] == "open" && we.Peak > they.Peak, "open streams, RSS: %.0f MB, %s %.0f MB.", we.Peak, rival, they.Peak)
		}
	}
}

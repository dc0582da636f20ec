package main

import (
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"
	"time"
)

// A report gathers samples.
type report struct {
	opts     options
	rows     []*row // in the order in which they first came
	choosing []choosing
	after    map[string]float64 // RSS of each system when all rounds are over, in MB
	failed   []string           // what rivals could not do
}

// A row is all samples of one workload on one system.
type row struct {
	workload workload
	system   string
	samples  []sample
}

func (r *report) add(system string, w workload, s sample) {
	found := r.find(w.name, system)
	if found == nil {
		found = &row{workload: w, system: system}
		r.rows = append(r.rows, found)
	}
	found.samples = append(found.samples, s)
}

func (r *report) find(workload, system string) *row {
	i := slices.IndexFunc(r.rows, func(o *row) bool { return o.workload.name == workload && o.system == system })
	if i < 0 {
		return nil
	}
	return r.rows[i]
}

// median returns the median of what get tells of each sample.
func (o *row) median(get func(sample) float64) float64 {
	var all []float64
	for _, s := range o.samples {
		all = append(all, get(s))
	}
	slices.Sort(all)
	return (all[len(all)/2] + all[(len(all)-1)/2]) / 2
}

// perRequest is a sample's CPU for each request, or each token of open
// streams, in microseconds.
func perRequest(s sample) float64 {
	return float64(s.cpu.Microseconds()) / float64(max(1, s.requests))
}

// A result is a row as it is printed.
type result struct {
	Workload string `json:"workload"`
	System   string `json:"system"`

	CPU      float64            `json:"cpu_us"`    // of the process: per request, or per token of open streams
	Ratios   map[string]float64 `json:"cpu_ratio"` // to each baseline that was run
	P50      float64            `json:"p50_ms"`
	P99      float64            `json:"p99_ms"`
	TTFT     [2]float64         `json:"ttft_ms"`        // p50 and p99
	ITL      [2]float64         `json:"itl_ms"`         // likewise, of paced chunks
	Rate     float64            `json:"requests_per_s"` // or tokens
	RSS      float64            `json:"rss_mb"`
	Peak     float64            `json:"peak_rss_mb"`
	Requests int                `json:"requests"` // of all rounds
}

func (r *report) results() []result {
	var all []result
	for _, w := range workloads() {
		for _, system := range append(systems(), direct) {
			if o := r.find(w.name, system); o != nil {
				all = append(all, r.result(o))
			}
		}
	}
	return all
}

func (r *report) result(o *row) result {
	out := result{
		Workload: o.workload.name,
		System:   o.system,
		Ratios:   map[string]float64{},
		CPU:      o.median(perRequest),
		P50:      o.median(func(s sample) float64 { return s.p50.Seconds() * 1e3 }),
		P99:      o.median(func(s sample) float64 { return s.p99.Seconds() * 1e3 }),
		Rate:     o.median(func(s sample) float64 { return float64(s.requests) / s.elapsed.Seconds() }),
		RSS:      o.median(func(s sample) float64 { return float64(s.rss) / (1 << 20) }),
		Peak:     o.median(func(s sample) float64 { return float64(s.peak) / (1 << 20) }),
	}
	for i := range 2 {
		out.TTFT[i] = o.median(func(s sample) float64 { return s.ttft[i].Seconds() * 1e3 })
		out.ITL[i] = o.median(func(s sample) float64 { return s.itl[i].Seconds() * 1e3 })
	}
	for _, s := range o.samples {
		out.Requests += s.requests
	}
	for _, name := range baselines() {
		if base := r.find(o.workload.name, name); base != nil {
			out.Ratios[name] = out.CPU / base.median(perRequest)
		}
	}
	return out
}

func (r *report) writeJSON(w io.Writer) error {
	out := json.NewEncoder(w)
	out.SetIndent("", "  ")
	return out.Encode(map[string]any{
		"dialect": r.opts.dialect, "concurrency": r.opts.concurrency, "rounds": r.opts.rounds,
		"duration_s": r.opts.duration.Seconds(), "streams": r.opts.streams, "results": r.results(), "choosing": r.choosing, "goals": r.goals(),
		"after_mb": r.after, "failed": r.failed,
	})
}

func (r *report) writeTable(w io.Writer) error {
	fmt.Fprintf(w, "dialect %s, %d requests at a time, median of %d rounds of %v\n",
		r.opts.dialect, r.opts.concurrency, r.opts.rounds, r.opts.duration.Round(time.Millisecond))
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	last := ""
	for _, o := range r.results() {
		if o.Workload != last {
			r.writeHeading(table, o.Workload)
			last = o.Workload
		}
		latency := fmt.Sprintf("%.2f\t%.2f\t", o.P50, o.P99)
		if o.Workload == held {
			latency = "-\t-\t"
		}
		fmt.Fprintf(table, "%s\t%.1f\t%s%s%.0f\t%.1f\t%.1f\t\n", o.System, o.CPU, o.ratios(), latency, o.Rate, o.RSS, o.Peak)
	}
	if err := table.Flush(); err != nil {
		return err
	}
	fmt.Fprintln(w)
	for _, g := range r.goals() {
		fmt.Fprintln(w, g)
	}
	return nil
}

func (r *report) writeHeading(table *tabwriter.Writer, name string) {
	w, _ := findWorkload(name) // results have no others
	title, unit := w.title, "request"
	if name == held {
		title, unit = fmt.Sprintf("%d %s", r.opts.streams, w.title), "token"
	}
	table.Flush() // each workload's columns are its own
	fmt.Fprintf(table, "\n%s\n", title)
	fmt.Fprintf(table, "\tCPU us/%s\tof %s\tp50 ms\tp99 ms\t%ss/s\tRSS MB\tpeak MB\t\n", unit, strings.Join(baselines(), "\tof "), unit)
}

// ratios are the cells under "of floor" and the others.
func (o result) ratios() string {
	var cells strings.Builder
	for _, name := range baselines() {
		if ratio, ok := o.Ratios[name]; ok {
			fmt.Fprintf(&cells, "x%.2f\t", ratio)
		} else {
			cells.WriteString("-\t")
		}
	}
	return cells.String()
}

// baselines are the systems that the others are compared with.
func baselines() []string { return []string{other, pooled, floor, twoLeg, oneLeg} }

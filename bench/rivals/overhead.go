package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"syscall"
	"time"

	"pdrouter/sim"
)

// A measured is what bench/overhead says of one dialect.
type measured struct {
	Dialect     string             `json:"dialect"`
	Concurrency int                `json:"concurrency"`
	Rounds      int                `json:"rounds"`
	Duration    float64            `json:"duration_s"`
	Streams     int                `json:"streams"`
	Results     []figure           `json:"results"`
	After       map[string]float64 `json:"after_mb"`
	Failed      []string           `json:"failed"`
}

// A figure is one workload on one system.
type figure struct {
	Workload string     `json:"workload"`
	System   string     `json:"system"`
	CPU      float64    `json:"cpu_us"`
	P50      float64    `json:"p50_ms"`
	P99      float64    `json:"p99_ms"`
	TTFT     [2]float64 `json:"ttft_ms"` // p50, p99
	ITL      [2]float64 `json:"itl_ms"`
	RSS      float64    `json:"rss_mb"`
	Peak     float64    `json:"peak_rss_mb"`
}

// overhead has bench/overhead measure each dialect, with the routers that speak it.
func (b *bench) overhead(ctx context.Context) ([]measured, error) {
	exe := filepath.Join(b.tmp, "overhead")
	if out, err := exec.CommandContext(ctx, "go", "build", "-o", exe, "pdrouter/bench/overhead").CombinedOutput(); err != nil {
		return nil, fmt.Errorf("build it: %w\n%s", err, out)
	}
	var all []measured
	for _, dialect := range []string{sim.SGLang, sim.VLLMNixl} {
		say("overhead, %s", dialect)
		cmd := exec.CommandContext(ctx, exe, "-json", "-dialect", dialect, "-rivals", b.opts.dir, "-router", b.opts.router,
			"-n", strconv.Itoa(b.opts.rounds), "-duration", b.opts.duration.String(), "-only", "1kb,32kb,1mb,stream,paced,steady,open")
		cmd.Stderr = os.Stderr
		cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGTERM}
		cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) } // it kills what it has started
		cmd.WaitDelay = 20 * time.Second
		out, err := cmd.Output()
		if err != nil {
			return nil, fmt.Errorf("%s: %w", dialect, err)
		}
		var m measured
		if err := json.Unmarshal(out, &m); err != nil {
			return nil, fmt.Errorf("%s: read its figures: %w", dialect, err)
		}
		all = append(all, m)
	}
	return all, nil
}

// find returns the figure of a workload on a system.
func (m measured) find(workload, system string) (figure, bool) {
	for _, f := range m.Results {
		if f.Workload == workload && f.System == system {
			return f, true
		}
	}
	return figure{}, false
}

// systems returns those that were measured, ours first.
func (m measured) systems() []string {
	var all []string
	seen := map[string]bool{"direct": true} // it is no system
	for _, f := range m.Results {
		if !seen[f.System] {
			seen[f.System] = true
			all = append(all, f.System)
		}
	}
	return all
}

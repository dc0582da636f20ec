package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// rivals are other people's routers, with the dialect that each hands off in.
// A name is also that of the folder of its virtual environment.
func rivals() map[string]string {
	return map[string]string{"smg": sglang, "sglang-router": sglang, "vllm-router": vllmNIXL}
}

// startRival starts one as it comes, with its defaults.
func (s *stage) startRival(ctx context.Context, name, data, metrics string) (*process, error) {
	_, port, _ := net.SplitHostPort(data)
	_, metricsPort, _ := net.SplitHostPort(metrics)
	listen := []string{"--host", "127.0.0.1", "--port", port, "--prometheus-host", "127.0.0.1", "--prometheus-port", metricsPort}
	exe, args := "smg", []string{"launch", "--pd-disaggregation", "--worker-startup-check-interval", "1"}
	if name == "vllm-router" {
		exe, args = name, []string{"--vllm-pd-disaggregation", "--kv-connector", "nixl"}
	}
	args = append(args, listen...)
	for i := range perRole {
		args = append(args, "--prefill", "http://"+s.prefills[i])
		if rivals()[name] == sglang {
			args = append(args, "8998")
		}
		args = append(args, "--decode", "http://"+s.decodes[i])
	}
	p, err := start(ctx, s.dir, filepath.Join(s.opts.rivals, name, "bin", exe), args...)
	if err == nil {
		p.stranger = true
	}
	return p, err
}

// tree returns the process and those that it started, and they.
func (p *process) tree() []int {
	all := []int{p.cmd.Process.Pid}
	for i := 0; i < len(all); i++ {
		files, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", all[i])) // the pattern is well-formed
		for _, file := range files {
			text, _ := os.ReadFile(file) // the thread may have ended
			for pid := range strings.FieldsSeq(string(text)) {
				if n, err := strconv.Atoi(pid); err == nil {
					all = append(all, n)
				}
			}
		}
	}
	return all
}

// treeCPU returns the CPU time of the tree with threads and children that have
// ended, in hundredths of a second.
func (p *process) treeCPU() (time.Duration, error) {
	var sum time.Duration
	for _, pid := range p.tree() {
		text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
		if err != nil {
			continue
		}
		_, rest, _ := strings.Cut(string(text), ") ") // the name of the program may have spaces
		fields := strings.Fields(rest)
		if len(fields) < 15 {
			continue
		}
		for _, field := range fields[11:15] { // utime, stime, and both of children
			n, err := strconv.Atoi(field)
			if err != nil {
				return 0, fmt.Errorf("read CPU time: %w", err)
			}
			sum += time.Duration(n) * 10 * time.Millisecond
		}
	}
	if sum == 0 {
		return 0, errors.New("read CPU time: the process is gone")
	}
	return sum, nil
}

// treeMemory returns what the tree has of memory. Nobody tells the peak of a
// tree: it is the sum of each one's.
func (p *process) treeMemory() (now, peak int64, err error) {
	for _, pid := range p.tree() {
		text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
		if err != nil {
			continue
		}
		n, most := resident(text)
		now, peak = now+n, peak+most
	}
	return now, peak, nil
}

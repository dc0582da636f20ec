package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"runtime"
	"strings"
)

// results are all figures, as they are kept.
type results struct {
	When     map[string]string `json:"when"` // by part
	Commands map[string]string `json:"commands"`
	Loads    map[string]string `json:"loads"` // of the minute before each part
	Machine  machine           `json:"machine"`
	Overhead []measured        `json:"overhead"`
	Faults   []verdict         `json:"faults"`
	Routing  []routed          `json:"routing"`
}

// load returns what is kept in a file, or nothing if there is none.
func load(path string) (*results, error) {
	r := &results{When: map[string]string{}, Commands: map[string]string{}, Loads: map[string]string{}}
	text, err := os.ReadFile(path)
	if errors.Is(err, os.ErrNotExist) {
		return r, nil
	}
	if err != nil {
		return nil, err
	}
	if err := json.Unmarshal(text, r); err != nil {
		return nil, fmt.Errorf("read %s: %w", path, err)
	}
	if r.Loads == nil { // a file of before they were kept
		r.Loads = map[string]string{}
	}
	return r, nil
}

func (r *results) save(path string) error {
	text, err := json.MarshalIndent(r, "", "  ")
	if err != nil {
		return err
	}
	return os.WriteFile(path, append(text, '\n'), 0o644)
}

// A machine is what the figures depend on. It says nothing of whose it is.
type machine struct {
	Cores    int     `json:"cores"`
	MemoryGB float64 `json:"memory_gb"`
	Kernel   string  `json:"kernel"`
	Go       string  `json:"go"`
	Load     string  `json:"load"` // average of the last minute
}

func look() machine {
	m := machine{Cores: runtime.NumCPU(), Go: runtime.Version() + " " + runtime.GOOS + "/" + runtime.GOARCH}
	text, _ := os.ReadFile("/proc/sys/kernel/osrelease") // without it there is less to say
	m.Kernel = strings.TrimSpace(string(text))
	text, _ = os.ReadFile("/proc/meminfo") // likewise
	var kb float64
	if _, err := fmt.Sscanf(string(text), "MemTotal: %f kB", &kb); err == nil {
		m.MemoryGB = kb / (1 << 20)
	}
	text, _ = os.ReadFile("/proc/loadavg") // likewise
	m.Load, _, _ = strings.Cut(string(text), " ")
	return m
}

package setup

import (
	"bytes"
	"context"
	"encoding/csv"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// A GPU is one that a host has.
type GPU struct {
	Index     int
	Name      string
	MemoryMiB int
	Node      int // of NUMA; -1: not known, or there is but one
}

// A Host is what a host has.
type Host struct {
	GPUs []GPU

	// CPUs are those of each NUMA node, as in 0-31,64-95; nil if there is but one
	// node.
	CPUs map[int]string
}

// Look looks at this host: GPUs by nvidia-smi, NUMA nodes in sys, which is /sys. A
// host without nvidia-smi has no GPUs.
func Look(ctx context.Context, sys string) (Host, error) {
	h := Host{CPUs: nodes(sys)}
	out, err := exec.CommandContext(ctx, "nvidia-smi", "--query-gpu=index,name,memory.total,pci.bus_id", "--format=csv,noheader,nounits").Output()
	switch {
	case errors.Is(err, exec.ErrNotFound):
		return h, nil
	case err != nil:
		return h, fmt.Errorf("nvidia-smi: %w", err)
	}
	h.GPUs, err = readGPUs(out, func(bus string) int { return nodeOf(sys, bus) })
	if len(h.CPUs) < 2 {
		h.CPUs = nil
		for i := range h.GPUs {
			h.GPUs[i].Node = -1
		}
	}
	return h, err
}

// readGPUs reads the lines of nvidia-smi.
func readGPUs(out []byte, node func(bus string) int) ([]GPU, error) {
	lines := csv.NewReader(bytes.NewReader(out))
	lines.TrimLeadingSpace = true
	rows, err := lines.ReadAll()
	if err != nil {
		return nil, fmt.Errorf("read what nvidia-smi says: %w", err)
	}
	var all []GPU
	for _, row := range rows {
		if len(row) != 4 {
			return nil, fmt.Errorf("read what nvidia-smi says: %q is not index, name, memory and bus", row)
		}
		index, err := strconv.Atoi(row[0])
		if err != nil {
			return nil, fmt.Errorf("read what nvidia-smi says: %q is no GPU's index", row[0])
		}
		memory, _ := strconv.Atoi(row[2]) // [N/A] where memory is shared with the CPUs
		all = append(all, GPU{Index: index, Name: row[1], MemoryMiB: memory, Node: node(row[3])})
	}
	slices.SortFunc(all, func(a, b GPU) int { return a.Index - b.Index })
	return all, nil
}

// nodeOf returns the NUMA node of a device. The bus of nvidia-smi, 00000000:3B:00.0,
// is 0000:3b:00.0 for the kernel.
func nodeOf(sys, bus string) int {
	domain, rest, ok := strings.Cut(strings.ToLower(bus), ":")
	if !ok {
		return -1
	}
	if len(domain) > 4 {
		domain = domain[len(domain)-4:]
	}
	text, err := os.ReadFile(filepath.Join(sys, "bus/pci/devices", domain+":"+rest, "numa_node"))
	if err != nil {
		return -1
	}
	node, err := strconv.Atoi(strings.TrimSpace(string(text)))
	if err != nil {
		return -1
	}
	return node
}

// nodes returns the CPUs of each NUMA node.
func nodes(sys string) map[int]string {
	dirs, _ := filepath.Glob(filepath.Join(sys, "devices/system/node/node[0-9]*")) // the pattern is well-formed
	all := map[int]string{}
	for _, dir := range dirs {
		node, err := strconv.Atoi(strings.TrimPrefix(filepath.Base(dir), "node"))
		text, unread := os.ReadFile(filepath.Join(dir, "cpulist"))
		if cpus := strings.TrimSpace(string(text)); err == nil && unread == nil && cpus != "" {
			all[node] = cpus
		}
	}
	return all
}

// gpu returns the GPU of that index.
func (h Host) gpu(index int) (GPU, bool) {
	i := slices.IndexFunc(h.GPUs, func(g GPU) bool { return g.Index == index })
	if i < 0 {
		return GPU{Index: index, Node: -1}, false
	}
	return h.GPUs[i], true
}

// Halves returns the GPUs that are left to prefill and to decode if nobody says.
func (h Host) Halves() (prefill, decode []int) {
	for i, g := range h.GPUs {
		if i < len(h.GPUs)/2 {
			prefill = append(prefill, g.Index)
		} else {
			decode = append(decode, g.Index)
		}
	}
	return prefill, decode
}

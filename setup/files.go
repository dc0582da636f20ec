package setup

import (
	"fmt"
	"net/url"
	"path/filepath"
	"slices"
	"strings"

	"pdrouter/systemd"
)

// A File is one that is to be written.
type File struct{ Path, Text string }

// A Layout says where files go: configuration below Dir, units into Units.
type Layout struct{ Dir, Units string }

// standard is where the example units look for what they need.
const standard = "/etc/pdrouter"

// Config returns the path of the router's configuration.
func (l Layout) Config() string { return filepath.Join(l.Dir, "pdrouter.yaml") }

// Files returns the files of a plan, in the order in which a person reads them.
func (l Layout) Files(p Plan) []File {
	files := []File{{l.Config(), config(p)}}
	if len(p.Engines) > 0 {
		files = append(files, File{filepath.Join(l.Dir, "engines/common.env"), common(p)})
	}
	for _, e := range p.Engines {
		name := strings.Replace(e.Unit, "@", "-", 1) + ".env" // %p-%i.env for the unit
		files = append(files, File{filepath.Join(l.Dir, "engines", name), environment(p, e)})
	}
	return slices.Concat(files, l.units(p), []File{{filepath.Join(l.Dir, "prometheus.yml"), prometheus(p)}})
}

// units returns the units of engines, and what binds each to its NUMA node.
func (l Layout) units(p Plan) []File {
	var templates, bindings []File
	for _, e := range p.Engines {
		before, _, _ := strings.Cut(e.Unit, "@")
		path := filepath.Join(l.Units, before+"@.service")
		text, _ := systemd.EngineUnit(before + "@.service") // there is one for each kind and role
		if f := (File{path, strings.ReplaceAll(text, standard, l.Dir)}); !slices.Contains(templates, f) {
			templates = append(templates, f)
		}
		if e.Node >= 0 {
			bindings = append(bindings, File{filepath.Join(l.Units, e.Unit+".service.d/numa.conf"), numa(p, e)})
		}
	}
	return append(templates, bindings...)
}

func config(p Plan) string {
	var b strings.Builder
	b.WriteString(`# What the router serves; pdrouter init wrote it, and will not touch it again. The
# names are those of the flags (pdrouter serve --help).
#
#   pdrouter check --config FILE     what is wrong with it
#   pdrouter doctor --config FILE    whether host and engines are as it says

`)
	for _, role := range []string{"prefill", "decode"} {
		fmt.Fprintf(&b, "%s:\n", role)
		for _, e := range p.Engines {
			if e.Role == role {
				fmt.Fprintf(&b, "  # %s: %s (%s.service)\n  - http://127.0.0.1:%d%s\n", e.ID, e.About, e.Unit, e.Port, bootstrapOf(e))
			}
		}
		n := 0
		for _, r := range p.Running {
			if r.Role == role {
				port := ""
				if r.Bootstrap != 0 {
					port = fmt.Sprint(" ", r.Bootstrap)
				}
				fmt.Fprintf(&b, "  # %s-%d: %s\n  - %s%s\n", role, n, r.About, r.URL, port)
				n++
			}
		}
		b.WriteByte('\n')
	}
	fmt.Fprintf(&b, `# How prefill hands over to decode.
dialect: %s

# Where clients are listened for, and Prometheus. While pdrouter.socket and
# pdrouter-metrics.socket are enabled, it is what they say.
host: %q
port: %d
prometheus-host: %q
prometheus-port: %d

# How long requests may run on when the router is stopped.
shutdown-grace-period-secs: 180

# Clients need this key, if it is set. Keep the file from others then.
#api-key: CHANGE-ME

#log-level: info
`, p.dialect(), p.Wish.Host, p.Port, p.Wish.Host, p.MetricsPort)
	return b.String()
}

// dialect returns how the engines of p hand over.
func (p Plan) dialect() string {
	switch {
	case len(p.Running) > 0:
		return p.Running[0].Dialect
	case p.Engine == "vllm":
		return "vllm-nixl"
	}
	return "sglang"
}

// bootstrapOf returns what stands behind the URL of an engine.
func bootstrapOf(e Planned) string {
	if e.Engine == "sglang" && e.Meet != 0 {
		return fmt.Sprint(" ", e.Meet)
	}
	return ""
}

func common(p Plan) string {
	return fmt.Sprintf(`# What all engines of this host have in common. Their units read this, and then
# the file of each.
MODEL=%s

# If the engine is installed in an environment of its own:
#PATH=/opt/engine/bin:/usr/bin:/bin
`, quoted(p.Model))
}

func environment(p Plan, e Planned) string {
	var b strings.Builder
	var gpus []string
	for _, g := range e.GPUs {
		gpus = append(gpus, fmt.Sprint(g))
	}
	fmt.Fprintf(&b, "# %s: %s. Read by %s.service after common.env.\n", e.ID, e.About, e.Unit)
	fmt.Fprintf(&b, "CUDA_VISIBLE_DEVICES=%s\nPORT=%d\n", strings.Join(gpus, ","), e.Port)
	flag := "--tp-size"
	switch {
	case p.Engine == "vllm":
		flag = "--tensor-parallel-size"
		fmt.Fprintf(&b, "\n# Where other engines ask for its blocks: an address that they reach.\nVLLM_NIXL_SIDE_CHANNEL_HOST=127.0.0.1\nVLLM_NIXL_SIDE_CHANNEL_PORT=%d\n", e.Meet)
	case e.Meet != 0:
		fmt.Fprintf(&b, "BOOTSTRAP_PORT=%d\n", e.Meet)
	}
	fmt.Fprintf(&b, "\n# The worker that the router calls it: what the unit drains when it stops.\nWORKER=%s\n", e.ID)
	if len(e.GPUs) > 1 {
		fmt.Fprintf(&b, "\nEXTRA=%s %d\n", flag, len(e.GPUs))
	} else {
		b.WriteString("\n# Further flags of the engine:\n#EXTRA=\n")
	}
	return b.String()
}

func numa(p Plan, e Planned) string {
	return fmt.Sprintf(`# %s: its GPUs are on NUMA node %d, and so are its CPUs and its memory.
[Service]
CPUAffinity=%s
NUMAPolicy=preferred
NUMAMask=%[2]d
`, e.ID, e.Node, strings.ReplaceAll(p.Host.CPUs[e.Node], ",", " "))
}

func prometheus(p Plan) string {
	var b strings.Builder
	fmt.Fprintf(&b, `# For Prometheus: name this file in scrape_config_files of its configuration, or
# take it for one.
scrape_configs:
  # The router. Every 5 s, because a KV cache fills in seconds.
  - job_name: pdrouter
    scrape_interval: 5s
    static_configs:
      - targets: [127.0.0.1:%d]

  # The engines, for their own dashboards; the router's metrics need them not.
  - job_name: pdrouter-engines
    scrape_interval: 15s
    static_configs:
`, p.MetricsPort)
	for _, role := range []string{"prefill", "decode"} {
		var at []string
		for _, e := range p.Engines {
			if e.Role == role {
				at = append(at, fmt.Sprint("127.0.0.1:", e.Port))
			}
		}
		for _, r := range p.Running {
			if u, err := url.Parse(r.URL); r.Role == role && err == nil && u.Host != "" {
				at = append(at, u.Host)
			}
		}
		fmt.Fprintf(&b, "      - targets: [%s]\n        labels: {role: %s}\n", strings.Join(at, ", "), role)
	}
	return b.String()
}

// quoted returns a value as an environment file has it.
func quoted(value string) string {
	plain := func(r rune) bool {
		return 'a' <= r|0x20 && r|0x20 <= 'z' || '0' <= r && r <= '9' || strings.ContainsRune("_./:@+-=,", r)
	}
	if !strings.ContainsFunc(value, func(r rune) bool { return !plain(r) }) {
		return value
	}
	return `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`, "$", `\$`, "`", "\\`").Replace(value) + `"`
}

package setup

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// A Wish is what an operator wants.
type Wish struct {
	Engine string // sglang or vllm
	Model  string // a directory, or a name that the engine finds

	// Prefill and Decode are the GPUs of either role, and PerEngine how many of
	// them each engine has.
	Prefill, Decode []int
	PerEngine       int

	// PrefillPort and DecodePort are the ports of the engines on GPU 0, and
	// BootstrapPort and SidePort those at which they meet: SGLang's bootstrap
	// server, vLLM's side channel of NIXL. Each further GPU adds one.
	PrefillPort, DecodePort, BootstrapPort, SidePort int

	// Host, Port and MetricsPort are the router's.
	Host              string
	Port, MetricsPort int

	// Running are engines that are there already. With any, no others are planned.
	Running []Running
}

// A Running is an engine that is there already.
type Running struct {
	Role      string
	URL       string
	Bootstrap int // 0: none
	Dialect   string
	About     string // for people
}

// A Planned is an engine that is to be.
type Planned struct {
	ID     string // of its worker
	Role   string
	GPUs   []int
	Port   int
	Meet   int    // bootstrap port or side channel; 0: none
	Unit   string // template@instance, without .service
	About  string // for people: its GPUs
	Node   int    // of NUMA, -1: none, or several
	Engine string
}

// A Plan is what a wish comes to on a host.
type Plan struct {
	Wish
	Host    Host
	Engines []Planned

	// Notes are what is not wrong, and should be known.
	Notes []string
}

// Plan returns what w comes to on h, or every fault of it.
func (w Wish) Plan(h Host) (Plan, error) {
	p := Plan{Wish: w, Host: h}
	if len(w.Running) > 0 {
		return p, p.checkRunning()
	}
	faults := w.faults(h)
	for _, role := range []string{"prefill", "decode"} {
		gpus := w.Prefill
		if role == "decode" {
			gpus = w.Decode
		}
		if w.PerEngine < 1 || len(gpus)%w.PerEngine != 0 {
			continue // said already
		}
		n := 0
		for group := range slices.Chunk(gpus, w.PerEngine) {
			p.Engines = append(p.Engines, p.engine(role, n, group))
			n++
		}
	}
	return p, errors.Join(append(faults, p.clashes()...)...)
}

// faults returns what is wrong with w by itself.
func (w Wish) faults(h Host) []error {
	var faults []error
	fault := func(format string, args ...any) { faults = append(faults, fmt.Errorf(format, args...)) }
	if w.Engine != "sglang" && w.Engine != "vllm" {
		fault("--engine: %q is neither sglang nor vllm", w.Engine)
	}
	if w.Model == "" || strings.ContainsFunc(w.Model, func(r rune) bool { return r < ' ' || r == 0x7f }) {
		fault("--model: say the model's directory or name")
	}
	if w.PerEngine < 1 {
		fault("--gpus-per-engine: %d is below 1", w.PerEngine)
	}
	for flag, gpus := range map[string][]int{"--prefill-gpus": w.Prefill, "--decode-gpus": w.Decode} {
		if len(gpus) == 0 {
			fault("%s: none", flag)
		}
		if w.PerEngine > 0 && len(gpus)%w.PerEngine != 0 {
			fault("%s: %d GPUs do not make engines of %d (--gpus-per-engine)", flag, len(gpus), w.PerEngine)
		}
		for _, g := range gpus {
			if _, there := h.gpu(g); !there && len(h.GPUs) > 0 {
				fault("%s: there is no GPU %d; nvidia-smi shows %d", flag, g, len(h.GPUs))
			}
		}
	}
	for _, g := range w.Prefill {
		if slices.Contains(w.Decode, g) {
			fault("--decode-gpus: GPU %d is prefill's already", g)
		}
	}
	slices.SortFunc(faults, func(a, b error) int { return strings.Compare(a.Error(), b.Error()) })
	return faults
}

// engine returns the nth engine of a role.
func (p *Plan) engine(role string, n int, gpus []int) Planned {
	e := Planned{
		ID: fmt.Sprintf("%s-%d", role, n), Role: role, GPUs: gpus, Engine: p.Engine,
		Port: p.PrefillPort + gpus[0], Unit: fmt.Sprintf("%s-%s@%d", p.Engine, role, gpus[0]), Node: -1,
	}
	if role == "decode" {
		e.Port = p.DecodePort + gpus[0]
	}
	switch {
	case p.Engine == "vllm":
		e.Meet = p.SidePort + gpus[0]
	case role == "prefill":
		e.Meet = p.BootstrapPort + gpus[0]
	}
	e.About = "GPU " + FormatRange(gpus)
	first, known := p.Host.gpu(gpus[0])
	if known {
		e.About += ", " + first.Name
	}
	e.Node = first.Node
	for _, g := range gpus[1:] {
		if other, _ := p.Host.gpu(g); other.Node != e.Node {
			p.Notes = append(p.Notes, fmt.Sprintf("%s has GPUs of NUMA nodes %d and %d, so it is bound to neither", e.Unit, e.Node, other.Node))
			e.Node = -1
			break
		}
	}
	if e.Node >= 0 {
		e.About += ", NUMA node " + strconv.Itoa(e.Node)
	}
	return e
}

// clashes returns the ports that two would have.
func (p *Plan) clashes() []error {
	taken := map[int]string{}
	var faults []error
	take := func(port int, who string) {
		switch other, is := taken[port]; {
		case port < 1 || port > 65535:
			faults = append(faults, fmt.Errorf("port %d of %s is not between 1 and 65535", port, who))
		case is:
			faults = append(faults, fmt.Errorf("port %d is %s's and %s's; say others (--prefill-port, --decode-port, --bootstrap-port, --side-port, --port, --prometheus-port)", port, other, who))
		default:
			taken[port] = who
		}
	}
	take(p.Port, "the router")
	take(p.MetricsPort, "the router's metrics")
	for _, e := range p.Engines {
		take(e.Port, e.Unit)
		if e.Meet != 0 {
			take(e.Meet, e.Unit+" (hand-off)")
		}
	}
	return faults
}

// checkRunning reports the roles that none of the engines has that run.
func (p *Plan) checkRunning() error {
	var faults []error
	for _, role := range []string{"prefill", "decode"} {
		if !slices.ContainsFunc(p.Running, func(r Running) bool { return r.Role == role }) {
			faults = append(faults, fmt.Errorf("no %s engine among those that were found", role))
		}
	}
	return errors.Join(faults...)
}

package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"pdrouter/setup"

	"github.com/spf13/cobra"
	"golang.org/x/term"
)

// An initOrder is what init is told.
type initOrder struct {
	wish                setup.Wish
	prefill, decode     string // GPUs as given
	probe, units        []string
	layout              setup.Layout
	sys                 string // /sys, or what stands for it
	dryRun, yes, change bool
	person              *asker // whom to ask; nil: nobody
}

func newInitCommand() *cobra.Command {
	var o initOrder
	cmd := &cobra.Command{
		Use:   "init",
		Short: "Look at this host and write configuration, units and Prometheus files for it",
		Long: `init looks at this host and writes what it needs to run engines and a router: the
router's configuration, a unit for each kind of engine with an environment file for
each engine, what binds them to their NUMA nodes, and a configuration for Prometheus.

GPUs are those that nvidia-smi shows; half of them are prefill's if nobody says
otherwise. With --probe or --probe-units the configuration is for engines that run
already, which are asked what they are.

On a terminal it asks for what it was not told. Nothing is overwritten: of a file
that is there and differs, it says how. With --replace that file is kept beside the
new one, as FILE.before-init; so is the example that the package brings.`,
		Example: `  pdrouter init
  pdrouter init --engine vllm --model /models/llama --prefill-gpus 0-3 --decode-gpus 4-7 --dry-run
  pdrouter init --probe prefill=21000-21003 --probe decode=21100-21103`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := o.run(cmd); err != nil {
				return fmt.Errorf("init: %w", err)
			}
			return nil
		},
	}
	o.bind(cmd)
	return cmd
}

// bind adds the flags whose values o is to have.
func (o *initOrder) bind(cmd *cobra.Command) {
	f, w, def := cmd.Flags(), &o.wish, DefaultConfig()
	f.SortFlags = false
	f.StringVar(&w.Engine, "engine", "sglang", "`name` of the engines: sglang, or vllm (with NIXL)")
	f.StringVar(&w.Model, "model", "", "the model's `directory` or name")
	f.StringVar(&o.prefill, "prefill-gpus", "", "`GPUs` for prefill, as in 0-3 or 0,2 (default: the first half)")
	f.StringVar(&o.decode, "decode-gpus", "", "`GPUs` for decode (default: the other half)")
	f.IntVar(&w.PerEngine, "gpus-per-engine", 1, "how many GPUs each engine has")
	f.IntVar(&w.PrefillPort, "prefill-port", 21000, "`port` of a prefill engine on GPU 0; each further GPU adds one, here and below")
	f.IntVar(&w.DecodePort, "decode-port", 21100, "`port` of a decode engine on GPU 0")
	f.IntVar(&w.BootstrapPort, "bootstrap-port", 21200, "`port` of the bootstrap server of an SGLang engine on GPU 0")
	f.IntVar(&w.SidePort, "side-port", 5600, "`port` of NIXL's side channel of a vLLM engine on GPU 0")
	f.StringVar(&w.Host, "host", def.Host, "`address` at which the router listens")
	f.IntVar(&w.Port, "port", def.Port, "its `port` for clients")
	f.IntVar(&w.MetricsPort, "prometheus-port", def.MetricsPort, "its `port` for Prometheus")
	f.StringArrayVar(&o.probe, "probe", nil, "`[ROLE=][HOST:]PORTS` at which engines run already, as in 21000-21003 or decode=10.0.0.2:8000; the role where an engine does not tell it (vLLM); may be repeated")
	f.StringArrayVar(&o.units, "probe-units", nil, "`units` that run engines already, as in 'vllm-decode@*'; the role where an engine does not tell it is the one in the unit's name; may be repeated")
	f.StringVar(&o.layout.Dir, "dir", "/etc/pdrouter", "`directory` for the configuration")
	f.StringVar(&o.layout.Units, "unit-dir", "", "`directory` for the units (default: /etc/systemd/system, and DIR/systemd with another --dir)")
	f.BoolVar(&o.dryRun, "dry-run", false, "print every file, write nothing")
	f.BoolVar(&o.change, "replace", false, "write also where another file is, which is kept as FILE.before-init")
	f.BoolVar(&o.yes, "yes", false, "do not ask")
	f.StringVar(&o.sys, "sys", "/sys", "where the kernel tells of the host")
	_ = f.MarkHidden("sys") // the flag is there
}

func (o *initOrder) run(cmd *cobra.Command) error {
	ctx := cmd.Context()
	if err := o.place(); err != nil {
		return err
	}
	host, err := setup.Look(ctx, o.sys)
	if err != nil {
		return err
	}
	shown := newScreen(cmd.OutOrStdout())
	o.person = o.someone(cmd)
	o.describe(shown, host)
	if len(o.probe)+len(o.units) > 0 {
		if o.wish.Running, err = o.running(ctx, shown); err != nil {
			return err
		}
	} else if err := o.settle(cmd, host); err != nil {
		return err
	}
	plan, err := o.wish.Plan(host)
	if err != nil {
		return asConfigFault(err)
	}
	for _, note := range plan.Notes {
		shown.say("note: %s", note)
	}
	o.tellTaken(ctx, shown, plan)
	return o.write(shown, plan)
}

// place settles where files go.
func (o *initOrder) place() error {
	standard := o.layout.Dir == "/etc/pdrouter"
	dir, err := filepath.Abs(o.layout.Dir)
	if err != nil {
		return err
	}
	o.layout.Dir = dir
	switch {
	case o.layout.Units != "":
		o.layout.Units, err = filepath.Abs(o.layout.Units)
	case standard:
		o.layout.Units = "/etc/systemd/system"
	default:
		o.layout.Units = filepath.Join(dir, "systemd")
	}
	return err
}

// describe says what there is.
func (o *initOrder) describe(shown *screen, host setup.Host) {
	if len(host.GPUs) == 0 {
		shown.say("No GPU is seen: nvidia-smi is not there, or shows none.")
		return
	}
	shown.say("%d GPUs are seen:", len(host.GPUs))
	for _, g := range host.GPUs {
		line := fmt.Sprintf("  GPU %d  %s, %d GiB", g.Index, g.Name, g.MemoryMiB/1024)
		if g.Node >= 0 {
			line += fmt.Sprintf(", NUMA node %d (CPUs %s)", g.Node, host.CPUs[g.Node])
		}
		shown.say("%s", line)
	}
}

// settle asks for what was not said, or takes what is likely where nobody can be
// asked.
func (o *initOrder) settle(cmd *cobra.Command, host setup.Host) error {
	prefill, decode := host.Halves()
	if ask := o.person; ask != nil {
		o.ask(ask, cmd.Flags().Changed, host)
		if ask.err != nil {
			return ask.err
		}
	}
	fill := func(text *string, gpus []int) {
		if *text == "" && len(gpus) > 0 {
			*text = setup.FormatRange(gpus)
		}
	}
	fill(&o.prefill, prefill)
	fill(&o.decode, decode)
	var faults []error
	for _, part := range []struct {
		flag, text string
		into       *[]int
	}{{"--prefill-gpus", o.prefill, &o.wish.Prefill}, {"--decode-gpus", o.decode, &o.wish.Decode}} {
		if part.text == "" {
			continue // the plan says that there are none
		}
		var err error
		if *part.into, err = setup.ParseRange(part.text); err != nil {
			faults = append(faults, fmt.Errorf("%s: %w", part.flag, err))
		}
	}
	return asConfigFault(errors.Join(faults...))
}

// ask asks for what was not said.
func (o *initOrder) ask(ask *asker, said func(flag string) bool, host setup.Host) {
	prefill, decode := host.Halves()
	if !said("engine") {
		o.wish.Engine = ask.oneOf("Engine", "sglang", "vllm")
	}
	if !said("model") {
		o.wish.Model = ask.text("Model (directory or name)", "", notEmpty)
	}
	if !said("prefill-gpus") {
		o.prefill = ask.text("GPUs for prefill", setup.FormatRange(prefill), isRange)
	}
	if !said("decode-gpus") {
		o.decode = ask.text("GPUs for decode", setup.FormatRange(decode), isRange)
	}
}

// someone returns who can be asked; nil if nobody can.
func (o *initOrder) someone(cmd *cobra.Command) *asker {
	in, isFile := cmd.InOrStdin().(*os.File)
	if o.yes || !isFile || !term.IsTerminal(int(in.Fd())) || !newScreen(cmd.OutOrStdout()).terminal {
		return nil
	}
	return newAsker(in, cmd.OutOrStdout())
}

// write shows the files, and writes those that are not there.
func (o *initOrder) write(shown *screen, plan setup.Plan) error {
	files := o.layout.Files(plan)
	if o.dryRun {
		for _, f := range files {
			state, _, err := setup.Compare(f)
			if err != nil {
				return err
			}
			shown.title(fmt.Sprintf("==> %s (%s)", f.Path, map[setup.State]string{setup.New: "new", setup.Same: "is there", setup.Shipped: "the package's example is there", setup.Differs: "something else is there"}[state]))
			shown.say("%s", strings.TrimSuffix(f.Text, "\n"))
		}
		return nil
	}
	if ask := o.person; ask != nil {
		shown.say("")
		for _, f := range files {
			shown.say("  %s", f.Path)
		}
		if !ask.yes(fmt.Sprintf("Write these %d files?", len(files))) {
			return errors.Join(ask.err, errors.New("nothing was written"))
		}
	}
	left := 0
	for _, f := range files {
		done, err := o.writeOne(shown, f)
		if err != nil {
			return err
		}
		if !done {
			left++
		}
	}
	if left > 0 {
		return fmt.Errorf("%d of %d files were left as they are; --replace writes them too, and keeps these as FILE.before-init", left, len(files))
	}
	o.tellNext(shown, plan)
	return nil
}

// writeOne writes a file, unless another is there.
func (o *initOrder) writeOne(shown *screen, f setup.File) (done bool, err error) {
	state, lines, err := setup.Compare(f)
	switch {
	case err != nil:
		return false, err
	case state == setup.Same:
		shown.say("is there  %s", f.Path)
		return true, nil
	case state == setup.Differs && !o.change:
		shown.say("%s  %s: - is there, + would be", shown.paint(yellow, "differs "), f.Path)
		for _, line := range lines {
			shown.say("    %s", line)
		}
		return false, nil
	}
	kept, err := setup.Put(f, o.change || state == setup.Shipped)
	if err != nil {
		return false, err
	}
	if kept != "" {
		kept = "; what was there is " + kept
	}
	shown.say("%s  %s%s", shown.paint(green, "written "), f.Path, kept)
	return true, nil
}

// tellTaken says which of the ports that engines are to have somebody has.
func (o *initOrder) tellTaken(ctx context.Context, shown *screen, plan setup.Plan) {
	for _, e := range plan.Engines {
		if who := whoIsAt(ctx, e.Port); who != "" {
			shown.say("note: port %d, which %s is to have, is taken by %s; --probe is for engines that run already", e.Port, e.Unit, who)
		}
	}
}

// tellNext says what an operator does next.
func (o *initOrder) tellNext(shown *screen, plan setup.Plan) {
	shown.title("Next")
	shown.say("  pdrouter check --config %s", o.layout.Config())
	if o.layout.Units == "/etc/systemd/system" {
		if len(plan.Engines) > 0 {
			var names []string
			for _, e := range plan.Engines {
				names = append(names, e.Unit)
			}
			shown.say("  useradd --system llm        # whom the engines run as, if there is no such user")
			shown.say("  systemctl daemon-reload")
			shown.say("  systemctl enable --now %s", strings.Join(names, " "))
		}
		shown.say("  systemctl enable --now pdrouter.socket pdrouter")
	}
	shown.say("  pdrouter doctor --config %s", o.layout.Config())
}

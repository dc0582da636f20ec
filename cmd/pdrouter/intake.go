package main

import (
	"cmp"
	"errors"
	"fmt"
	"slices"

	"pdrouter/workers"

	"github.com/goccy/go-yaml/token"
	"github.com/spf13/pflag"
)

// An intake gathers a Config from a command line and a file. It collects faults
// instead of stopping at the first, so that one start shows them all.
type intake struct {
	cfg      Config
	settings []setting
	given    map[string]bool // by flag or by file
	flags    []flagText      // the command line, to be read again
	file     string          // --config
	faults   []error
	warnings []warning

	// noted is called behind each value that a file gives, with its place.
	noted func(*token.Token)

	// What is given by other words than the Config's own.
	backend    string
	pairs      bool
	tenantKeys []string
	tryOnce    bool
}

// A warning says of one setting what is not done with it.
type warning struct {
	Setting string `json:"setting"`
	Text    string `json:"warning"`
}

func newIntake() *intake {
	in := &intake{cfg: DefaultConfig(), given: map[string]bool{}, pairs: true}
	in.settings = slices.Concat(in.enforcedSettings(), laterSettings(), unneededSettings())
	return in
}

// A bound is a setting as a flag. Its Set never fails: the fault waits for the
// others in the intake.
type bound struct {
	*setting
	in *intake
}

// Set takes text for the setting, or notes what is wrong with it.
func (b *bound) Set(text string) error {
	b.in.flags = append(b.in.flags, flagText{b.name, text})
	if err := b.in.set(b.setting, text); err != nil {
		b.in.faults = append(b.in.faults, fmt.Errorf("--%w", err))
	}
	return nil
}

// String returns the value, as --help and docs/flags.md show the default.
func (b *bound) String() string {
	if b.setting == nil || b.value == nil || b.secret {
		return ""
	}
	return b.value.String()
}

// Type returns what --help calls the value.
func (b *bound) Type() string {
	if b.value == nil {
		return "value"
	}
	return b.value.Type()
}

// bind makes every setting a flag of flags.
func (in *intake) bind(flags *pflag.FlagSet) {
	flags.SortFlags = false
	for i := range in.settings {
		s := &in.settings[i]
		f := flags.VarPF(&bound{s, in}, s.name, "", s.usage)
		f.Hidden = s.standing != enforced
		if s.takes == takesNone {
			f.NoOptDefVal = "true"
		}
	}
	flags.StringVar(&in.file, "config", "", "YAML `file` with settings under the names of the flags; a flag overrides it")
}

// set gives text to s. Its error begins with the setting's name.
func (in *intake) set(s *setting, text string) error {
	in.given[s.name] = true
	if s.value == nil {
		return nil
	}
	err := s.value.Set(text)
	switch {
	case err == nil:
		return nil
	case s.secret:
		return fmt.Errorf("%s: %w", s.name, err)
	}
	return fmt.Errorf("%s: %q: %w", s.name, text, err)
}

// load returns the configuration that flags and file make, or every fault of it.
func (in *intake) load() (Config, error) {
	if in.file != "" {
		if err := in.readFile(in.file); err != nil {
			// Without the file the rest would be judged by half of what was said.
			return Config{}, asConfigFault(errors.Join(append(in.faults, err)...))
		}
	}
	in.translate()
	in.warn()
	err := errors.Join(append(in.faults, in.cfg.Validate())...)
	return in.cfg, asConfigFault(err)
}

// translate brings smg's words into the Config.
func (in *intake) translate() {
	c := &in.cfg
	if in.backend != "" && !in.given["dialect"] {
		c.Workers.Dialect = map[string]string{"sglang": "sglang", "vllm": "vllm-nixl"}[in.backend]
	}
	if !in.pairs {
		in.faults = append(in.faults, errors.New("pd-disaggregation: false: there is no other way to route here"))
	}
	if in.tryOnce {
		c.Router.Retries.Attempts = 1
	}
	if c.AdminOnData && len(in.tenantKeys) > 0 && c.AdminAPIKey == "" {
		in.faults = append(in.faults, errors.New("admin-on-data-listener: a tenant's key must not open it; give --admin-api-key"))
	}
	c.Router.APIKeys = append(c.Router.APIKeys, in.tenantKeys...)
	slices.SortStableFunc(c.Workers.Specs, func(a, b workers.Spec) int { return cmp.Compare(a.Role, b.Role) })
	if c.DiscoveryProvider == kubernetes {
		in.warnings = append(in.warnings, warning{"discovery-provider", "kubernetes is not in this release; file is"})
	}
}

// warn notes every given setting that is not acted on.
func (in *intake) warn() {
	for _, s := range in.settings {
		switch {
		case !in.given[s.name]:
		case s.name == "tenant-api-key":
			in.warnings = append(in.warnings, warning{s.name, "its key counts like --api-key; the tenant's name is not used"})
		case s.standing == later:
			in.warnings = append(in.warnings, warning{s.name, "accepted, not acted on in this release: " + s.reason})
		case s.standing == unneeded:
			in.warnings = append(in.warnings, warning{s.name, "accepted, not needed: " + s.reason})
		case s.unread(in.cfg) != "":
			in.warnings = append(in.warnings, warning{s.name, s.unread(in.cfg)})
		}
	}
}

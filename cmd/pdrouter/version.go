package main

import (
	"cmp"
	"encoding/json"
	"fmt"
	"runtime"
	"runtime/debug"

	"github.com/spf13/cobra"
)

// version is set by the linker (-X main.version=v1.2.3). Empty: what the build
// knows of itself.
var version string

// A buildInfo says which program this is.
type buildInfo struct {
	Version  string `json:"version"`
	Go       string `json:"go"`
	Revision string `json:"revision,omitempty"`
	Time     string `json:"time,omitempty"`
	Modified bool   `json:"modified,omitempty"` // built from a changed checkout
}

// build returns what is known about this binary.
func build() buildInfo {
	b := buildInfo{Version: version, Go: runtime.Version()}
	info, ok := debug.ReadBuildInfo()
	if !ok {
		b.Version = cmp.Or(b.Version, "unknown")
		return b
	}
	b.Version = cmp.Or(b.Version, info.Main.Version, "(devel)")
	for _, s := range info.Settings {
		switch s.Key {
		case "vcs.revision":
			b.Revision = s.Value
		case "vcs.time":
			b.Time = s.Value
		case "vcs.modified":
			b.Modified = s.Value == "true"
		}
	}
	return b
}

// String is one line for people.
func (b buildInfo) String() string {
	text := fmt.Sprintf("pdrouter %s, %s", b.Version, b.Go)
	if b.Revision != "" {
		text += ", revision " + b.Revision
	}
	if b.Modified {
		text += " with changes"
	}
	return text
}

func newVersionCommand() *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "version",
		Short: "Say which pdrouter this is",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if asJSON {
				return json.NewEncoder(cmd.OutOrStdout()).Encode(build())
			}
			_, err := fmt.Fprintln(cmd.OutOrStdout(), build())
			return err
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print one JSON object")
	return cmd
}

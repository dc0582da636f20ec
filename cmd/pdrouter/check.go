package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"github.com/spf13/cobra"
)

func newCheckCommand(in *intake) *cobra.Command {
	var asJSON, asDiff bool
	cmd := &cobra.Command{
		Use:   "check",
		Short: "Validate flags and file, and print the effective configuration",
		Long: `check takes what serve takes, reports every fault at once, and prints the
configuration that serve would run with: YAML that --config takes again. Keys are
printed as ***. Nothing is listened on, and no worker is asked. With --diff it
compares with the configuration of the running daemon, which is asked at the
admin socket that flags and file name.

The exit status is 0 if serve would start, and 78 if it would not.`,
		Example: `  pdrouter check --config /etc/pdrouter.yaml
  pdrouter check --config /etc/pdrouter.yaml --diff
  pdrouter check --prefill http://10.0.0.1:30000 8998 --decode http://10.0.0.2:30000 > pdrouter.yaml`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			cfg, err := in.load()
			if asDiff && err == nil {
				return diff(cmd, in, asJSON)
			}
			if asJSON {
				return errors.Join(err, checkJSON(cmd.OutOrStdout(), in, cfg, err))
			}
			for _, w := range in.warnings {
				fmt.Fprintf(cmd.ErrOrStderr(), "warning: --%s: %s\n", w.Setting, w.Text)
			}
			if err != nil {
				return err
			}
			return checkYAML(cmd.OutOrStdout(), in, cfg)
		},
	}
	in.bind(cmd.Flags())
	cmd.Flags().BoolVar(&asJSON, "json", false, "print one JSON object with faults, warnings, workers and configuration")
	cmd.Flags().BoolVar(&asDiff, "diff", false, "show what a reload of the running daemon would change to be this configuration, and what needs a restart")
	return cmd
}

// checkYAML prints the workers, as comments, and the effective configuration.
func checkYAML(w io.Writer, in *intake, cfg Config) error {
	text, err := in.effective().MarshalYAML()
	if err != nil {
		return fmt.Errorf("print the configuration: %w", err)
	}
	writeTable(w, cfg.workerRows())
	_, err = w.Write(text)
	return err
}

// checkJSON prints all that check knows for a script to read.
func checkJSON(w io.Writer, in *intake, cfg Config, fault error) error {
	out := struct {
		OK       bool        `json:"ok"`
		Faults   []string    `json:"faults"`
		Warnings []warning   `json:"warnings"`
		Workers  []workerRow `json:"workers"`
		Config   document    `json:"config"`
	}{
		OK:       fault == nil,
		Faults:   append([]string{}, faultLines(fault)...),
		Warnings: append([]warning{}, in.warnings...),
		Workers:  append([]workerRow{}, cfg.workerRows()...),
	}
	if fault == nil {
		out.Config = in.effective()
	}
	return json.NewEncoder(w).Encode(out)
}

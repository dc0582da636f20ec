package main

import (
	"cmp"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"

	"pdrouter/admin"

	"github.com/spf13/cobra"
)

func newWorkersCommand() *cobra.Command {
	var (
		place  adminPlace
		asJSON bool
	)
	cmd := &cobra.Command{
		Use:   "workers",
		Short: "Show the workers of a running daemon",
		Long: `workers asks a running daemon for its workers: which there are, which get
requests, how many each has under way, and why one gets none.

The status is ready; pending (has not said what it is), not_ready (was ready, and
may be again), failed (does not fit its configuration); draining (gets no new
requests, has some), or drained (and has none).`,
		Example: `  pdrouter workers
  pdrouter workers --json
  pdrouter workers --admin-url http://127.0.0.1:30002 --admin-api-key KEY`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, err := place.client()
			if err != nil {
				return err
			}
			defer c.close()
			list, raw, err := c.workers(cmd.Context())
			switch {
			case err != nil:
				return fmt.Errorf("workers: %w", err)
			case asJSON:
				_, err := fmt.Fprintf(cmd.OutOrStdout(), "%s\n", strings.TrimSpace(string(raw)))
				return err
			}
			return writeWorkers(cmd.OutOrStdout(), list)
		},
	}
	place.bind(cmd)
	cmd.Flags().BoolVar(&asJSON, "json", false, "print the daemon's answer as it is")
	return cmd
}

// writeWorkers writes a line for each worker, and under it why it gets no
// requests.
func writeWorkers(out io.Writer, list admin.List) error {
	if len(list.Workers) == 0 {
		_, err := fmt.Fprintln(out, "There are no workers.")
		return err
	}
	var text strings.Builder
	table := tabwriter.NewWriter(&text, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "ID\tROLE\tSTATUS\tREQUESTS\tKV\tMODEL\tURL\tWHY")
	for _, w := range list.Workers {
		fmt.Fprintf(table, "%s\t%s\t%s\t%d\t%s\t%s\t%s\t%s\n", w.ID, w.WorkerType, w.Status, w.Load, usageOf(w), cmp.Or(w.ModelID, "-"), w.URL, whyOf(w))
	}
	if err := table.Flush(); err != nil {
		return err
	}
	for line := range strings.Lines(text.String()) {
		if _, err := fmt.Fprintln(out, strings.TrimRight(line, " \n")); err != nil {
			return err
		}
	}
	return nil
}

// usageOf returns how full the KV cache of a worker is.
func usageOf(w admin.WorkerInfo) string {
	if w.EngineLoad == nil || len(w.EngineLoad.Loads) == 0 || w.EngineLoad.Loads[0].Usage == nil {
		return "-"
	}
	return fmt.Sprintf("%.0f%%", *w.EngineLoad.Loads[0].Usage*100)
}

// whyOf returns why a worker gets no requests.
func whyOf(w admin.WorkerInfo) string {
	var why []string
	if w.Reason != "" {
		why = append(why, w.Reason)
	}
	for _, b := range w.Bars {
		why = append(why, strings.TrimSuffix(b.Cause+": "+b.Reason, ": "))
	}
	return strings.Join(why, "; ")
}

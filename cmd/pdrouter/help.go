package main

import (
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// helpWidth is the column at which --help breaks its lines.
const helpWidth = 110

// groupFlags makes --help of cmd show its flags under headings, and completion
// offer the words that a flag knows.
func groupFlags(cmd *cobra.Command, in *intake) {
	cmd.SetUsageFunc(func(cmd *cobra.Command) error {
		return writeUsage(cmd.OutOrStderr(), cmd, in)
	})
	for _, s := range in.settings {
		if len(s.choices) > 0 {
			// The flag is there: in.bind has made it. There is nothing else to fail.
			_ = cmd.RegisterFlagCompletionFunc(s.name, cobra.FixedCompletions(s.choices, cobra.ShellCompDirectiveNoFileComp))
		}
	}
}

// writeUsage writes what stands below the description of cmd.
func writeUsage(w io.Writer, cmd *cobra.Command, in *intake) error {
	fmt.Fprintf(w, "Usage:\n  %s [flags]\n", cmd.CommandPath())
	if len(cmd.Aliases) > 0 {
		fmt.Fprintf(w, "\nAlso called: %s\n", strings.Join(cmd.Aliases, ", "))
	}
	fmt.Fprintf(w, "\nExamples:\n%s\n", cmd.Example)
	headed := map[string]string{}
	var order []string
	for _, s := range in.settings {
		if s.group != "" && headed[s.name] == "" {
			headed[s.name] = s.group
		}
		if len(order) == 0 || s.group != "" && order[len(order)-1] != s.group {
			order = append(order, s.group)
		}
	}
	for _, group := range append(order, groupGeneral) {
		part := pflag.NewFlagSet(group, pflag.ContinueOnError)
		part.SortFlags = false
		cmd.Flags().VisitAll(func(f *pflag.Flag) {
			if headed[f.Name] == group || group == groupGeneral && headed[f.Name] == "" {
				part.AddFlag(f)
			}
		})
		fmt.Fprintf(w, "\n%s:\n%s", group, part.FlagUsagesWrapped(helpWidth))
	}
	_, err := fmt.Fprintln(w, "\nsmg's other flags are accepted with a warning; docs/flags.md lists them all.")
	return err
}

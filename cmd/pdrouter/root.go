package main

import (
	"slices"
	"strings"

	"github.com/spf13/cobra"
)

// newRootCommand returns the command line of the daemon, about to run args.
func newRootCommand(args []string) *cobra.Command {
	root := &cobra.Command{
		Use:   "pdrouter",
		Short: "Route LLM requests to prefill and decode workers",
		Long: `pdrouter stands in front of LLM engines (SGLang, vLLM) that run with prefill and
decode on different GPUs. It sends each prompt to a prefill worker, has the KV
cache handed over to a decode worker, and streams that worker's answer.

Without a command it serves: pdrouter is pdrouter serve, which takes smg's flags.`,
		Example: `  pdrouter demo
  pdrouter --prefill http://127.0.0.1:21000 21200 --decode http://127.0.0.1:21100
  pdrouter init
  pdrouter doctor`,
		Version:       build().Version,
		SilenceUsage:  true,
		SilenceErrors: true,
	}
	root.SetVersionTemplate(build().String() + "\n")
	in := newIntake()
	serve, check, examine := newServeCommand(in), newCheckCommand(in), newDoctorCommand(in)
	root.AddCommand(serve, check, examine, newInitCommand(), newStatusCommand(), newExplainCommand(), newWatchCommand(), newReloadCommand(), newUpgradeCommand(),
		newWorkersCommand(), newDrainCommand(), newUndrainCommand(), newAddCommand(), newRemoveCommand(), newRestartCommand(),
		newReplayCommand(), newDemoCommand(), newSimCommand(), newVersionCommand())
	args = withCommand(args)
	for _, cmd := range []*cobra.Command{serve, check, examine} {
		groupFlags(cmd, in)
		cmd.InitDefaultHelpFlag()
		if len(args) > 0 && (args[0] == cmd.Name() || cmd.HasAlias(args[0])) {
			rest, err := normalise(cmd.Flags(), args[1:])
			args = append(args[:1:1], rest...)
			if err != nil {
				in.faults = append(in.faults, err)
			}
		}
	}
	root.SetArgs(args)
	return root
}

// withCommand puts serve in front of args that name no command. smg's spellings
// of --version are those of a command here.
func withCommand(args []string) []string {
	switch {
	case len(args) == 0:
		return []string{"serve"}
	case slices.Contains([]string{"-V", "--version-verbose"}, args[0]):
		return []string{"version"}
	case slices.Contains([]string{"-h", "--help", "-v", "--version"}, args[0]):
		return args
	case strings.HasPrefix(args[0], "-"):
		return append([]string{"serve"}, args...)
	}
	return args
}

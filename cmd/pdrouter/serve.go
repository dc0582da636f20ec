package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"pdrouter/systemd"

	"github.com/spf13/cobra"
	"go.uber.org/zap"
)

func newServeCommand(in *intake) *cobra.Command {
	cmd := &cobra.Command{
		Use:     "serve",
		Aliases: []string{"launch", "start"},
		Short:   "Run the router (the default command)",
		Long: `serve listens for clients on --port and for Prometheus on --prometheus-port, and
routes until SIGTERM. It starts when its configuration is valid, and ends with
status 78 and one line per fault when it is not.

Settings may also stand in a YAML file (--config), under the names of the flags; a
flag overrides the file. smg's flags are taken; those not shown below have no
effect, and each one that is given is logged with the reason.`,
		Example: `  pdrouter serve --prefill http://127.0.0.1:21000 21200 --prefill http://127.0.0.1:21001 21201 \
                 --decode http://127.0.0.1:21100 --decode http://127.0.0.1:21101
  pdrouter serve --config /etc/pdrouter.yaml --port 8080`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			before, err := findPredecessor()
			if err != nil {
				return err
			}
			cfg, err := in.load()
			if err == nil {
				level := zap.NewAtomicLevelAt(levelOf(cfg.LogLevel))
				log := newLogger(level, cfg, cmd.ErrOrStderr())
				for _, w := range in.warnings {
					log.Warn("setting not acted on", zap.String("flag", "--"+w.Setting), zap.String("why", w.Text))
				}
				err = run(cmd.Context(), in, before, level, log)
			}
			before.failed(err)
			return err
		},
	}
	in.bind(cmd.Flags())
	return cmd
}

// run serves until ctx ends or a part of the daemon fails. It returns when
// every part has stopped.
func run(ctx context.Context, in *intake, before *predecessor, level zap.AtomicLevel, log *zap.Logger) error {
	hangups := make(chan os.Signal, 1) // of several at a time one is enough
	signal.Notify(hangups, syscall.SIGHUP)
	defer signal.Stop(hangups)
	limitMemory(log)
	this, err := thisProgram()
	if err != nil {
		return fmt.Errorf("find this program: %w", err)
	}
	d, err := newDaemon(ctx, before.called(in.cfg), systemd.Listeners(), log)
	if err != nil {
		return err
	}
	in.adminSecret = ""
	d.reload.from, d.reload.level, d.reload.hangups = in, level, hangups
	d.upgrading.program, d.before = this, before
	if before != nil {
		d.takeWorkers(before.estate)
	}
	return d.run(ctx)
}

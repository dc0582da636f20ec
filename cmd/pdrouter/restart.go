package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"pdrouter/systemd"

	"github.com/spf13/cobra"
)

// A unitManager knows the units of this host and restarts them: systemd.
type unitManager interface {
	// Units returns the units that a name or a pattern of names stands for.
	Units(ctx context.Context, pattern string) ([]systemd.Unit, error)

	// Restart returns when the unit's old process has ended and the new one runs.
	Restart(ctx context.Context, name string) error
}

// A restartOrder is what restart-worker is told.
type restartOrder struct {
	place  adminPlace
	worker string
	within time.Duration
}

func newRestartCommand() *cobra.Command {
	var o restartOrder
	cmd := &cobra.Command{
		Use:   "restart-worker UNIT...",
		Short: "Restart engines one after the other, without a failed request",
		Long: `restart-worker restarts the engines that units of systemd run: it drains the worker
whose engine the unit is, waits for its last request, restarts the unit, waits until
the engine answers and the daemon finds it fit, and undrains. Then comes the next
unit. It stops at the first that does not come back, and says how things stand.

A unit's worker is the one on this host with the port (--port, --uds) in the unit's
ExecStart, variables replaced, or else in its environment's PORT. UNIT may be a
pattern, of which the units that run are taken. A worker that was drained before
stays so.`,
		Example: `  pdrouter restart-worker vllm-decode@4
  pdrouter restart-worker 'sglang-prefill@*'
  pdrouter restart-worker my-engine.service --worker decode-1`,
		Args: func(_ *cobra.Command, args []string) error { return o.check(args) },
		RunE: func(cmd *cobra.Command, args []string) error {
			c, err := o.place.client()
			if err != nil {
				return err
			}
			defer c.close()
			manager, err := systemd.DialManager(cmd.Context())
			if err != nil {
				return fmt.Errorf("restart-worker: %w", err)
			}
			defer manager.Close()
			r := &restarter{restartOrder: o, manager: manager, client: c, shown: newScreen(cmd.OutOrStdout())}
			if err := r.run(cmd.Context(), args); err != nil {
				return fmt.Errorf("restart-worker: %w", err)
			}
			return nil
		},
	}
	o.place.bind(cmd)
	f := cmd.Flags()
	f.StringVar(&o.worker, "worker", "", "`ID` of the worker whose engine the one unit is, where its port does not tell")
	f.DurationVar(&o.within, "ready-within", 20*time.Minute, "how long an engine may take until it is ready")
	return cmd
}

func (o *restartOrder) check(args []string) error {
	switch {
	case len(args) == 0:
		return errors.New("restart-worker: name units, as in pdrouter restart-worker 'vllm-decode@*'")
	case o.worker != "" && (len(args) > 1 || strings.ContainsAny(args[0], "*?[")):
		return errors.New("restart-worker: --worker goes with one unit")
	case o.within <= 0:
		return errors.New("restart-worker: --ready-within must be above 0")
	}
	return nil
}

package main

import (
	"context"
	"fmt"
	"net/http"

	"pdrouter/admin"

	"github.com/spf13/cobra"
)

func newRemoveCommand() *cobra.Command {
	var o drainOrder
	cmd := &cobra.Command{
		Use:   "remove ID",
		Short: "Remove a worker of a running daemon; its requests go on to their end",
		Long: `remove takes a worker from a running daemon. It gets no new requests, and is
forgotten when its last one has ended. It comes back with the daemon's next start
if the configuration names it, or is added again as another worker.`,
		Example: "  pdrouter remove decode-2 --wait && systemctl stop vllm-decode@6",
		Args:    oneID,
		RunE: func(cmd *cobra.Command, args []string) error {
			o.id = args[0]
			return o.run(cmd, o.remove)
		},
	}
	o.place.bind(cmd)
	cmd.Flags().BoolVar(&o.wait, "wait", false, "return when its last request has ended and it is forgotten")
	return cmd
}

func (o *drainOrder) remove(cmd *cobra.Command, c *adminClient) error {
	ctx := cmd.Context()
	if err := c.do(ctx, http.MethodDelete, o.path(), nil); err != nil {
		return err
	}
	w, gone, err := o.look(ctx, c)
	if err != nil {
		return err
	}
	o.warnOfLast(cmd, c, w)
	switch {
	case gone:
	case o.wait:
		if err := o.awaitGone(ctx, c, w, newScreen(cmd.ErrOrStderr())); err != nil {
			return err
		}
	default:
		fmt.Fprintf(cmd.OutOrStdout(), "%s gets no new requests; %d under way go on\n", o.id, w.Load)
		return nil
	}
	fmt.Fprintf(cmd.OutOrStdout(), "%s is removed\n", o.id)
	return nil
}

// awaitGone returns when the daemon has forgotten the worker.
func (o *drainOrder) awaitGone(ctx context.Context, c *adminClient, w admin.WorkerInfo, shown *screen) error {
	most := w.Load
	err := shown.await(ctx, o.id, func(ctx context.Context) (progress, error) {
		now, gone, err := o.look(ctx, c)
		if err != nil || gone {
			return progress{done: gone}, err
		}
		w, most = now, max(most, now.Load)
		return progress{share: float64(most-w.Load) / float64(max(most, 1)), text: fmt.Sprintf("%d under way", w.Load)}, nil
	})
	if ctx.Err() != nil {
		return fmt.Errorf("not waited for any more, with %d under way; it goes when they have ended", w.Load)
	}
	return err
}

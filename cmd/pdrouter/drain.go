package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"

	"pdrouter/admin"

	"github.com/spf13/cobra"
)

// A drainOrder is what drain and undrain are told.
type drainOrder struct {
	place adminPlace
	id    string
	wait  bool
}

func newDrainCommand() *cobra.Command {
	var o drainOrder
	cmd := &cobra.Command{
		Use:   "drain ID",
		Short: "Give a worker no new requests; those that it has go on",
		Long: `drain gives a worker of a running daemon no new requests. Streams that it serves go
on to their end. Then its status is drained, and its engine may be stopped. It
lasts until undrain, also if the engine starts anew.

pdrouter workers shows the IDs.`,
		Example: `  pdrouter drain decode-1 --wait && systemctl restart vllm@decode-1 && pdrouter undrain decode-1`,
		Args:    oneID,
		RunE: func(cmd *cobra.Command, args []string) error {
			o.id = args[0]
			return o.run(cmd, o.drain)
		},
	}
	o.place.bind(cmd)
	cmd.Flags().BoolVar(&o.wait, "wait", false, "return when its last request has ended")
	return cmd
}

func newUndrainCommand() *cobra.Command {
	var o drainOrder
	cmd := &cobra.Command{
		Use:     "undrain ID",
		Short:   "Give a drained worker requests again",
		Long:    "undrain takes back drain: the worker gets requests again as soon as it is ready.",
		Example: "  pdrouter undrain decode-1",
		Args:    oneID,
		RunE: func(cmd *cobra.Command, args []string) error {
			o.id = args[0]
			return o.run(cmd, o.undrain)
		},
	}
	o.place.bind(cmd)
	return cmd
}

func oneID(cmd *cobra.Command, args []string) error {
	if len(args) != 1 {
		return fmt.Errorf("%s: name one worker by its ID, as in pdrouter %[1]s decode-0; pdrouter workers shows them", cmd.Name())
	}
	return nil
}

// run does what is asked with a client of the daemon.
func (o *drainOrder) run(cmd *cobra.Command, do func(*cobra.Command, *adminClient) error) error {
	c, err := o.place.client()
	if err != nil {
		return err
	}
	defer c.close()
	err = do(cmd, c)
	if e, ok := errors.AsType[*admin.Error](err); ok && e.Status == http.StatusNotFound {
		return fmt.Errorf("%s %s: there is no such worker; pdrouter workers shows the IDs", cmd.Name(), o.id)
	}
	if err != nil {
		return fmt.Errorf("%s %s: %w", cmd.Name(), o.id, err)
	}
	return nil
}

func (o *drainOrder) path() string { return "/workers/" + url.PathEscape(o.id) }

func (o *drainOrder) undrain(cmd *cobra.Command, c *adminClient) error {
	if err := c.do(cmd.Context(), http.MethodPost, o.path()+"/undrain", nil); err != nil {
		return err
	}
	w, _, err := o.look(cmd.Context(), c)
	if err != nil {
		return err
	}
	fmt.Fprintf(cmd.OutOrStdout(), "%s is %s\n", o.id, w.Status)
	return nil
}

func (o *drainOrder) drain(cmd *cobra.Command, c *adminClient) error {
	ctx := cmd.Context()
	if err := c.do(ctx, http.MethodPost, o.path()+"/drain", nil); err != nil {
		return err
	}
	w, gone, err := o.look(ctx, c)
	if err != nil {
		return err
	}
	o.warnOfLast(cmd, c, w)
	if o.wait && !gone {
		if w, err = o.await(ctx, c, w, newScreen(cmd.ErrOrStderr())); err != nil {
			return err
		}
	}
	if w.Load > 0 {
		fmt.Fprintf(cmd.OutOrStdout(), "%s gets no new requests; %d under way go on\n", o.id, w.Load)
		return nil
	}
	fmt.Fprintf(cmd.OutOrStdout(), "%s is drained\n", o.id)
	return nil
}

// warnOfLast says so if no worker of the role is left.
func (o *drainOrder) warnOfLast(cmd *cobra.Command, c *adminClient, w admin.WorkerInfo) {
	if list, _, err := c.workers(cmd.Context()); err == nil && w.WorkerType != "" && list.ReadyOf(w.WorkerType) == 0 {
		fmt.Fprintf(cmd.ErrOrStderr(), "warning: no other %s worker is ready; clients get 503 until one is\n", w.WorkerType)
	}
}

// look returns how the worker is; gone if it was removed meanwhile.
func (o *drainOrder) look(ctx context.Context, c *adminClient) (w admin.WorkerInfo, gone bool, err error) {
	err = c.do(ctx, http.MethodGet, o.path(), &w)
	if e, ok := errors.AsType[*admin.Error](err); ok && e.Status == http.StatusNotFound {
		return w, true, nil
	}
	return w, false, err
}

// await returns when the worker has no request any more.
func (o *drainOrder) await(ctx context.Context, c *adminClient, w admin.WorkerInfo, shown *screen) (admin.WorkerInfo, error) {
	most := w.Load
	err := shown.await(ctx, o.id, func(ctx context.Context) (progress, error) {
		now, gone, err := o.look(ctx, c)
		switch {
		case err != nil:
			return progress{}, err
		case gone:
			w.Load = 0
			return progress{done: true}, nil
		case now.Status != admin.Draining && now.Status != admin.Drained:
			return progress{}, fmt.Errorf("somebody else has undrained it; it is %s", now.Status)
		}
		w, most = now, max(most, now.Load)
		return progress{
			done:  w.Load == 0,
			share: float64(most-w.Load) / float64(max(most, 1)),
			text:  fmt.Sprintf("%d under way", w.Load),
		}, nil
	})
	if ctx.Err() != nil {
		return w, fmt.Errorf("not waited for any more, with %d under way; it goes on draining", w.Load)
	}
	return w, err
}

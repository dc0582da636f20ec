package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"time"

	"pdrouter/admin"

	"github.com/spf13/cobra"
)

const (
	// nextLook is how often it is asked whether a request has come, and watchLook
	// how often how far it is.
	nextLook  = 50 * time.Millisecond
	watchLook = 100 * time.Millisecond

	// kvLook is how often the KV cache of its worker is looked at.
	kvLook = time.Second
)

// A watchOrder is what watch is told.
type watchOrder struct {
	place  adminPlace
	model  string
	many   int
	asJSON bool
}

func newWatchCommand() *cobra.Command {
	var o watchOrder
	cmd := &cobra.Command{
		Use:   "watch",
		Short: "Follow the next request through a running daemon, phase by phase",
		Long: `watch waits for the next request that comes to a running daemon and follows it:
its path, the silence while prefill computes, its stream, and each second how
full the KV cache of its decode worker is. Ten times a second the daemon is asked
how far the request is; a phase that is shorter than that is told afterwards. In
a pipe there are plain lines, with --json one object for each look.`,
		Example: `  pdrouter watch
  pdrouter watch --model llama-70b -n 10
  pdrouter watch --json | jq -c '[.phase, .age_seconds]'`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if o.many < 0 {
				return asConfigFault(fmt.Errorf("-n %d: is below 0", o.many))
			}
			err := o.run(cmd.Context(), cmd.OutOrStdout())
			if err != nil && cmd.Context().Err() != nil {
				return nil // who interrupts it has seen enough
			}
			return err
		},
	}
	o.place.bind(cmd)
	cmd.Flags().StringVar(&o.model, "model", "", "only requests for this `model`")
	cmd.Flags().IntVarP(&o.many, "number", "n", 1, "how many requests, one after the other; 0: until it is interrupted")
	cmd.Flags().BoolVar(&o.asJSON, "json", false, "print each look at the request as a line of JSON")
	return cmd
}

func (o *watchOrder) run(ctx context.Context, out io.Writer) error {
	c, err := o.place.client()
	if err != nil {
		return err
	}
	defer c.close()
	after, err := c.last(ctx)
	if err != nil {
		return fmt.Errorf("watch: %w", err)
	}
	s := newScreen(out)
	for seen := 0; o.many == 0 || seen < o.many; seen++ {
		if seen == 0 && s.terminal && !o.asJSON {
			s.say("%s", s.paint(dim, "waiting for a request ..."))
		}
		first, err := awaitNext(ctx, c, after, o.model)
		if err != nil {
			return fmt.Errorf("watch: %w", err)
		}
		after = first.Number
		if err := o.follow(ctx, c, s, first); err != nil {
			return fmt.Errorf("watch: %w", err)
		}
	}
	return nil
}

// awaitNext returns the next request as soon as there is one.
func awaitNext(ctx context.Context, c *adminClient, after uint64, model string) (*admin.RequestInfo, error) {
	for {
		n, err := c.next(ctx, after, model)
		switch {
		case err != nil:
			return nil, err
		case n.Request != nil:
			return n.Request, nil
		case !pause(ctx, nextLook):
			return nil, ctx.Err()
		}
	}
}

// follow shows a request until it has ended.
func (o *watchOrder) follow(ctx context.Context, c *adminClient, s *screen, r *admin.RequestInfo) error {
	if o.asJSON {
		return followJSON(ctx, c, s.out, r)
	}
	w := &watching{screen: s}
	w.begin(r)
	defer w.end()
	var looked time.Time
	for {
		w.show(r)
		if r.Pair != nil && time.Since(looked) >= kvLook {
			looked = time.Now()
			status, _, err := c.status(ctx)
			if err != nil {
				return err
			}
			w.heard(r, &status)
		}
		if !r.Running {
			return nil
		}
		if !pause(ctx, watchLook) {
			return ctx.Err()
		}
		now, err := c.request(ctx, r.ID, r.Number)
		if e, ok := errors.AsType[*admin.Error](err); ok && e.Status == 404 {
			w.lost(r)
			return nil
		}
		if err != nil {
			return err
		}
		r = &now
	}
}

// followJSON writes each look at a request until it has ended.
func followJSON(ctx context.Context, c *adminClient, out io.Writer, r *admin.RequestInfo) error {
	enc := json.NewEncoder(out)
	for {
		if err := enc.Encode(r); err != nil || !r.Running {
			return err
		}
		if !pause(ctx, watchLook) {
			return ctx.Err()
		}
		now, err := c.request(ctx, r.ID, r.Number)
		if err != nil {
			return err
		}
		r = &now
	}
}

// pause waits, and reports false if ctx ends earlier.
func pause(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}

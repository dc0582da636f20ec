package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"

	"pdrouter/admin"

	"github.com/spf13/cobra"
)

// An addOrder is what add is told.
type addOrder struct {
	place                  adminPlace
	role, url              string
	bootstrapPort          int
	bootstrapHost, engineK string
	wait                   bool
}

func newAddCommand() *cobra.Command {
	var o addOrder
	cmd := &cobra.Command{
		Use:   "add prefill|decode URL [BOOTSTRAP_PORT]",
		Short: "Add a worker to a running daemon",
		Long: `add makes an engine a worker of a running daemon. It gets requests as soon as it
has said what it is and that fits; it may come later. What is added lasts until
the daemon ends: put it into the configuration as well.`,
		Example: `  pdrouter add decode http://127.0.0.1:21102 --wait
  pdrouter add prefill http://127.0.0.1:21002 21202`,
		Args: func(_ *cobra.Command, args []string) error { return o.take(args) },
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, err := o.place.client()
			if err != nil {
				return err
			}
			defer c.close()
			if err := o.run(cmd, c); err != nil {
				return fmt.Errorf("add %s: %w", o.url, err)
			}
			return nil
		},
	}
	o.place.bind(cmd)
	f := cmd.Flags()
	f.StringVar(&o.bootstrapHost, "bootstrap-host", "", "`address` at which decode engines find its bootstrap server, if not the host of the URL")
	f.StringVar(&o.engineK, "worker-api-key", "", "`key` that this engine asks for, if not the daemon's --worker-api-key")
	f.BoolVar(&o.wait, "wait", false, "return when it gets requests")
	return cmd
}

// take reads the arguments.
func (o *addOrder) take(args []string) error {
	if len(args) < 2 || len(args) > 3 || args[0] != "prefill" && args[0] != "decode" {
		return errors.New("add: say the role and the URL, as in pdrouter add decode http://127.0.0.1:21102; for prefill a bootstrap port may follow")
	}
	o.role, o.url = args[0], args[1]
	if len(args) == 2 {
		return nil
	}
	if o.role == "decode" {
		return fmt.Errorf("add: %q after the URL: a decode worker has no bootstrap port", args[2])
	}
	port, err := parseBootstrapPort(args[2])
	if err != nil {
		return fmt.Errorf("add: %w", err)
	}
	o.bootstrapPort = max(port, 0)
	return nil
}

func (o *addOrder) run(cmd *cobra.Command, c *adminClient) error {
	ctx := cmd.Context()
	spec := map[string]any{"url": o.url, "worker_type": o.role}
	if o.bootstrapPort != 0 {
		spec["bootstrap_port"] = o.bootstrapPort
	}
	if o.bootstrapHost != "" {
		spec["bootstrap_host"] = o.bootstrapHost
	}
	if o.engineK != "" {
		spec["api_key"] = o.engineK
	}
	body, err := json.Marshal(spec)
	if err != nil {
		return err
	}
	var accepted admin.Accepted
	if err := c.send(ctx, http.MethodPost, "/workers", body, &accepted); err != nil {
		return err
	}
	id := accepted.WorkerID
	if !o.wait {
		fmt.Fprintf(cmd.OutOrStdout(), "%s is added\n", id)
		return nil
	}
	if err := untilReady(ctx, c, id, newScreen(cmd.ErrOrStderr())); err != nil {
		return err
	}
	fmt.Fprintf(cmd.OutOrStdout(), "%s is ready\n", id)
	return nil
}

// untilReady returns when a worker gets requests. One that does not fit will not
// by waiting alone.
func untilReady(ctx context.Context, c *adminClient, id string, shown *screen) error {
	o := drainOrder{id: id}
	var w admin.WorkerInfo
	err := shown.await(ctx, id, func(ctx context.Context) (progress, error) {
		now, gone, err := o.look(ctx, c)
		switch {
		case err != nil:
			return progress{}, err
		case gone:
			return progress{}, errors.New("somebody else has removed it")
		case now.Status == admin.Failed:
			return progress{}, fmt.Errorf("%s does not fit: %s; it is looked at again and again, until pdrouter remove %[1]s", id, now.Reason)
		}
		w = now
		return progress{done: w.IsHealthy && len(w.Bars) == 0, share: -1, text: w.Status + because(whyOf(w))}, nil
	})
	if ctx.Err() != nil {
		return fmt.Errorf("not waited for any more; %s is %s%s", id, w.Status, because(whyOf(w)))
	}
	return err
}

// because returns a reason as the end of a sentence.
func because(why string) string {
	if why == "" {
		return ""
	}
	return ": " + why
}

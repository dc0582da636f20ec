package main

import (
	"fmt"
	"net/http"

	"pdrouter/admin"

	"github.com/spf13/cobra"
)

func newUpgradeCommand() *cobra.Command {
	var place adminPlace
	cmd := &cobra.Command{
		Use:   "upgrade",
		Short: "Have the daemon replaced by the program that is on disk now",
		Long: `upgrade makes a running daemon start the program that is on disk now, under the path
and with the arguments that it was started with itself, and hand over to it: its
sockets, what it knows of the workers, and its place as the service. The new one
reads the configuration anew. It serves when it has looked at each worker; until then
the old one does, which then takes no new connections, runs its requests to their end
(--shutdown-grace-period-secs) and ends. No connection is refused, and no stream cut.

If the new one does not come up, the old one goes on as if nothing had been, and
upgrade ends with status 1 and the reason.`,
		Example: `  apt-get install ./pdrouter.deb   # its postinst does the next
  pdrouter upgrade`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, err := place.client()
			if err != nil {
				return err
			}
			defer c.close()
			c.http.Timeout = upgradeTime + adminTime
			var done admin.Upgraded
			if err := c.do(cmd.Context(), http.MethodPost, "/upgrade", &done); err != nil {
				return fmt.Errorf("upgrade: %w", err)
			}
			fmt.Fprintf(cmd.OutOrStdout(), "process %d has taken over from %d after %.1f s; %d requests of the old one run to their end\n",
				done.To, done.From, done.Seconds, done.Running)
			return nil
		},
	}
	place.bind(cmd)
	return cmd
}

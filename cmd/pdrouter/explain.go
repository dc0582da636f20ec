package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"

	"pdrouter/admin"

	"github.com/spf13/cobra"
)

// An explainOrder is what explain is told.
type explainOrder struct {
	place          adminPlace
	id             string
	failed, asJSON bool
}

func newExplainCommand() *cobra.Command {
	var o explainOrder
	cmd := &cobra.Command{
		Use:   "explain [ID]",
		Short: "Show what happened to one request, and why it went where it went",
		Long: `explain asks a running daemon for one request: how long it was in each phase, its
attempts and what ended them, which workers it could have gone to and why it went
where it went. The ID is the one that the client gave or was given, in
X-Request-Id, and that the access log has. Without one it is the last request
that has ended. If clients gave several requests one ID, all are shown.

A daemon knows the requests that run, and the last 1024 that have ended.`,
		Example: `  pdrouter explain req-ABCDEFGH
  pdrouter explain --failed
  pdrouter explain --json | jq .attempts`,
		Args: cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) == 1 {
				o.id = args[0]
			}
			if o.id != "" && o.failed {
				return asConfigFault(errors.New("--failed: is about the last request that failed; give no ID with it"))
			}
			return o.run(cmd)
		},
	}
	o.place.bind(cmd)
	cmd.Flags().BoolVar(&o.failed, "failed", false, "without ID: the last one that failed")
	cmd.Flags().BoolVar(&o.asJSON, "json", false, "print what the daemon knows as JSON, one line for each request")
	return cmd
}

func (o *explainOrder) run(cmd *cobra.Command) error {
	c, err := o.place.client()
	if err != nil {
		return err
	}
	defer c.close()
	path := "/requests/finished?limit=1"
	switch {
	case o.id != "":
		path = requestPath(o.id)
	case o.failed:
		path += "&failed=true"
	}
	var list admin.Requests
	err = c.do(cmd.Context(), http.MethodGet, path, &list)
	if e, ok := errors.AsType[*admin.Error](err); ok && e.Status == http.StatusNotFound && e.Code == "REQUEST_NOT_FOUND" {
		return fmt.Errorf("explain %s: no request with this ID runs, nor is one among the last that have ended; the access log may have it", o.id)
	}
	switch {
	case err != nil:
		return fmt.Errorf("explain: %w", err)
	case len(list.Requests) == 0 && o.failed:
		return errors.New("explain: none of the last requests has failed")
	case len(list.Requests) == 0:
		return errors.New("explain: no request has ended yet; pdrouter watch shows the next one")
	}
	if o.asJSON {
		enc := json.NewEncoder(cmd.OutOrStdout())
		for _, r := range list.Requests {
			if err := enc.Encode(r); err != nil {
				return err
			}
		}
		return nil
	}
	s := newScreen(cmd.OutOrStdout())
	for i := range list.Requests {
		if i > 0 {
			s.say("")
		}
		explain(s, &list.Requests[i])
	}
	return nil
}

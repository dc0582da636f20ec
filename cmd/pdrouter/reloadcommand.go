package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	"pdrouter/admin"

	"github.com/spf13/cobra"
)

// reloadTime bounds the wait for the result of a reload.
const reloadTime = time.Minute

func newReloadCommand() *cobra.Command {
	var (
		place  adminPlace
		asJSON bool
	)
	cmd := &cobra.Command{
		Use:   "reload",
		Short: "Have a running daemon read its configuration anew",
		Long: `reload has a running daemon read its file (--config), its discovery file and its
certificates anew, with the command line that it was started with, waits for the
result, and shows what has changed. What cannot change without a restart stays as
it is, and is named. It is what ExecReload= calls; SIGHUP does the same, but
nobody learns the result.

If anything is wrong with the configuration nothing changes: there is a line for
each fault, and the exit status is 1.`,
		Example: `  pdrouter reload
  ExecReload=/usr/bin/pdrouter reload`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, err := place.client()
			if err != nil {
				return err
			}
			defer c.close()
			var done admin.Reload
			if err := c.reload(cmd, "/reload", nil, &done); err != nil {
				return err
			}
			if asJSON {
				return json.NewEncoder(cmd.OutOrStdout()).Encode(done)
			}
			return writeReload(cmd.OutOrStdout(), done)
		},
	}
	place.bind(cmd)
	cmd.Flags().BoolVar(&asJSON, "json", false, "print the result as one JSON object")
	return cmd
}

// reload asks the daemon for what takes longer than a look. Each fault that it
// finds is a line of the error.
func (c *adminClient) reload(cmd *cobra.Command, path string, body []byte, v any) error {
	c.http.Timeout = reloadTime
	err := c.send(cmd.Context(), http.MethodPost, path, body, v)
	if e, is := errors.AsType[*admin.Error](err); is && e.Status == http.StatusUnprocessableEntity {
		return errors.New(e.Message)
	}
	return err
}

// writeReload writes what a reload has changed, or would change.
func writeReload(out io.Writer, r admin.Reload) error {
	var text bytes.Buffer
	for _, c := range r.Settings {
		note := ""
		if c.NeedsRestart {
			note = "  (needs a restart)"
		}
		fmt.Fprintf(&text, "%s: %s -> %s%s\n", c.Setting, plainText(c.Old), plainText(c.New), note)
	}
	for _, w := range r.Added {
		fmt.Fprintf(&text, "worker added: %s\n", w)
	}
	for _, w := range r.Removed {
		fmt.Fprintf(&text, "worker removed: %s\n", w)
	}
	for _, w := range r.Changed {
		fmt.Fprintf(&text, "worker changed: %s\n", w)
	}
	if text.Len() == 0 {
		text.WriteString("Nothing has changed.\n")
	}
	_, err := out.Write(text.Bytes())
	return err
}

// plainText returns a value of a setting as a person would write it.
func plainText(v any) string {
	switch v := v.(type) {
	case nil:
		return "none"
	case string:
		if v == "" {
			return "none"
		}
		return v
	case []any:
		if len(v) == 0 {
			return "none"
		}
		words := make([]string, len(v))
		for i := range v {
			words[i] = plainText(v[i])
		}
		return strings.Join(words, ", ")
	}
	text, err := json.Marshal(v)
	if err != nil {
		return fmt.Sprint(v)
	}
	return string(text)
}

// diff asks the running daemon, where flags and file say that it is, what taking
// the configuration of in would change, and prints that.
func diff(cmd *cobra.Command, in *intake, asJSON bool) error {
	place := adminPlace{socket: in.cfg.AdminSocket}
	if in.cfg.AdminSocket == noSocket && in.cfg.AdminPort != 0 {
		place.url, place.key = fmt.Sprintf("http://%s:%d", in.cfg.AdminHost, in.cfg.AdminPort), in.cfg.AdminAPIKey
	}
	c, err := place.client()
	if err != nil {
		return err
	}
	defer c.close()
	text, err := in.whole().MarshalYAML()
	if err != nil {
		return fmt.Errorf("write the configuration: %w", err)
	}
	var would admin.Reload
	switch err := c.reload(cmd, "/config/diff", text, &would); {
	case err != nil:
		return fmt.Errorf("compare with the running daemon: %w", err)
	case asJSON:
		return json.NewEncoder(cmd.OutOrStdout()).Encode(would)
	}
	return writeReload(cmd.OutOrStdout(), would)
}

// whole is effective with the keys in it: for the daemon, which has them too,
// and at a socket or on loopback.
func (in *intake) whole() document {
	doc := in.effective()
	for i := range doc {
		s := in.setting(doc[i].Name)
		if l, is := s.value.(*workerList); is {
			doc[i].Value = l.items(func(key string) string { return key })
		} else if s.secret {
			doc[i].Value = s.value.plain()
		}
	}
	return doc
}

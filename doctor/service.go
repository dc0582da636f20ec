package doctor

import (
	"context"
	"path/filepath"

	"pdrouter/systemd"
)

// unit returns the router's unit, if there is one.
func (c *Case) unit(ctx context.Context) (systemd.Unit, bool) {
	if c.Manager == nil {
		return systemd.Unit{}, false
	}
	units, err := c.Manager.Units(ctx, c.Unit)
	if err != nil || len(units) != 1 || units[0].Load != "loaded" {
		return systemd.Unit{}, false
	}
	return units[0], true
}

// service finds what the service manager knows of the router.
func (c *Case) service(ctx context.Context) []Finding {
	found := &chart{check: Service}
	if c.Manager == nil {
		found.note(Unknown, "", "", "systemd does not run here, or does not answer")
		return found.all
	}
	u, ok := c.unit(ctx)
	if !ok {
		found.note(Unknown, c.Unit, "name it with --unit, if it is another one", "there is no such unit: the router is not a service here")
		return found.all
	}
	note := func(is bool, status Status, do, format string, args ...any) {
		if is {
			found.note(status, u.Name, do, format, args...)
		}
	}
	journal := "journalctl -u " + u.Name + " says why"
	note(u.Active == "failed", Fault, journal, "it has failed (%s)", u.Result)
	note(u.Restarts > 0, Warning, journal, "systemd has started it again %d times, because it had ended by itself", u.Restarts)
	note(u.NeedsReload, Warning, "systemctl daemon-reload, then restart it", "its file has changed since systemd has read it")
	note(u.Type != "notify" && u.Type != "notify-reload", Warning, "Type=notify", "it is of Type=%s, so that it counts as started before it can serve", u.Type)
	if path := u.Option("--config"); c.Config != "" && path != "" {
		ours, err := filepath.Abs(c.Config)
		note(err == nil && ours != path, Warning, "pdrouter doctor --config "+path, "it runs with %s, and this examination is about %s", path, c.Config)
	}
	if len(found.all) == 0 {
		found.note(OK, u.Name, "", "%s, Type=%s", u.Active, u.Type)
	}
	return found.all
}

package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"pdrouter/admin"
	"pdrouter/survey"
	"pdrouter/systemd"
)

// healthPage bounds what is read of a health check's answer, in bytes.
const healthPage = 64 << 10

// plan finds the worker of each unit that patterns name, or says everything that
// is in the way.
func (r *restarter) plan(ctx context.Context, patterns []string) ([]restart, error) {
	list, _, err := r.client.workers(ctx)
	if err != nil {
		return nil, err
	}
	var (
		plan   []restart
		faults []error
	)
	for _, pattern := range patterns {
		units, err := r.manager.Units(ctx, pattern)
		if err != nil {
			return nil, err
		}
		if len(units) == 0 {
			faults = append(faults, fmt.Errorf("%s: no such unit is loaded", pattern))
		}
		for _, u := range units {
			w, err := r.workerOf(&u, list.Workers)
			if err != nil {
				faults = append(faults, fmt.Errorf("%s: %w", u.Name, err))
				continue
			}
			if i := slices.IndexFunc(plan, func(s restart) bool { return s.worker.ID == w.ID }); i >= 0 && plan[i].unit.Name != u.Name {
				faults = append(faults, fmt.Errorf("%s: its port is that of %s too, so one of them is not the engine of %s; restart them one by one, with --worker", u.Name, plan[i].unit.Name, w.ID))
			} else if i < 0 {
				plan = append(plan, restart{u, w})
			}
		}
	}
	return plan, errors.Join(faults...)
}

// workerOf returns the worker whose engine a unit runs.
func (r *restarter) workerOf(u *systemd.Unit, all []admin.WorkerInfo) (admin.WorkerInfo, error) {
	var none admin.WorkerInfo
	if u.Load != "loaded" {
		return none, fmt.Errorf("no such unit (%s)", u.Load)
	}
	if r.worker != "" {
		i := slices.IndexFunc(all, func(w admin.WorkerInfo) bool { return w.ID == r.worker })
		if i < 0 {
			return none, fmt.Errorf("--worker: there is no %s; pdrouter workers shows the IDs", r.worker)
		}
		return all[i], nil
	}
	place, is := unitPlace(u)
	if place == "" {
		why := "neither its command nor its environment tells a port"
		if len(u.Unread) > 0 {
			why = strings.Join(u.Unread, ", ") + " cannot be read, and its command alone tells no port"
		}
		return none, fmt.Errorf("%s; say whose engine it is with --worker ID", why)
	}
	var found []admin.WorkerInfo
	for _, w := range all {
		if is(w.URL) {
			found = append(found, w)
		}
	}
	switch len(found) {
	case 0:
		return none, fmt.Errorf("no worker of the router is at %s of this host; pdrouter workers shows them; --worker ID says which it is", place)
	case 1:
		if says := u.Variable("WORKER"); says != "" && says != found[0].ID {
			return none, fmt.Errorf("%s of this host is %s, but the unit's WORKER is %s, which it drains when it stops; put that right, or say which with --worker ID", place, found[0].ID, says)
		}
		return found[0], nil
	}
	var names []string
	for _, w := range found {
		names = append(names, fmt.Sprintf("%s (%s)", w.ID, w.URL))
	}
	return none, fmt.Errorf("%s of this host may be %s; say which with --worker ID", place, strings.Join(names, " or "))
}

// unitPlace returns where a unit's engine listens, for people, and which URLs are
// that; nothing if the unit does not tell.
func unitPlace(u *systemd.Unit) (place string, is func(url string) bool) {
	if path := u.Option("--uds"); path != "" {
		return "socket " + path, func(url string) bool { return url == "unix:"+path }
	}
	port := cmp.Or(u.Option("--port"), u.Variable("PORT"))
	if port == "" {
		return "", nil
	}
	return "port " + port, func(text string) bool {
		at, err := url.Parse(text)
		return err == nil && at.Port() == port && survey.IsHere(at.Hostname())
	}
}

// engineClient returns a client for the engine at the URL of a worker, and what
// paths are put behind.
func engineClient(at string) (client *http.Client, base string) {
	transport := &http.Transport{}
	path, is := strings.CutPrefix(at, "unix:")
	if !is {
		return &http.Client{Transport: transport}, strings.TrimSuffix(at, "/")
	}
	transport.DialContext = func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "unix", path)
	}
	return &http.Client{Transport: transport}, "http://engine"
}

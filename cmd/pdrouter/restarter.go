package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	"pdrouter/admin"
	"pdrouter/systemd"
)

// healthTime bounds one question to an engine that starts.
const healthTime = 2 * time.Second

// A restarter restarts engines one after the other.
type restarter struct {
	restartOrder
	manager unitManager
	client  *adminClient
	shown   *screen
}

// A restart is one unit and the worker whose engine it runs.
type restart struct {
	unit   systemd.Unit
	worker admin.WorkerInfo
}

func (r restart) String() string { return fmt.Sprintf("%s (%s)", r.unit.Name, r.worker.ID) }

// run restarts what patterns name. Nothing is touched unless each unit has its
// worker.
func (r *restarter) run(ctx context.Context, patterns []string) error {
	plan, err := r.plan(ctx, patterns)
	if err != nil {
		return err
	}
	for i, step := range plan {
		if err := r.restart(ctx, step, fmt.Sprintf("[%d/%d] %s", i+1, len(plan), step)); err != nil {
			return fmt.Errorf("%s: %w%s", step, err, r.standing(plan, i))
		}
	}
	return nil
}

// standing says what of a plan is done when step i has failed.
func (r *restarter) standing(plan []restart, i int) string {
	var said strings.Builder
	for _, part := range []struct {
		what  string
		steps []restart
	}{{"restarted before", plan[:i]}, {"not touched", plan[i+1:]}} {
		if len(part.steps) > 0 {
			names := make([]string, len(part.steps))
			for k, s := range part.steps {
				names[k] = s.String()
			}
			fmt.Fprintf(&said, "\n%s: %s", part.what, strings.Join(names, ", "))
		}
	}
	return said.String()
}

// restart drains, restarts, waits and undrains.
func (r *restarter) restart(ctx context.Context, step restart, name string) error {
	o := drainOrder{id: step.worker.ID}
	w, gone, err := o.look(ctx, r.client)
	if err != nil || gone {
		return errors.Join(err, map[bool]error{true: errors.New("somebody has removed the worker")}[gone])
	}
	kept := w.Status == admin.Draining || w.Status == admin.Drained
	if err := r.client.do(ctx, http.MethodPost, o.path()+"/drain", nil); err != nil {
		return err
	}
	if list, _, err := r.client.workers(ctx); err == nil && list.ReadyOf(w.WorkerType) == 0 && !kept {
		r.shown.say("%s: warning: no other %s worker is ready; clients wait or get 503 until this one is back", name, w.WorkerType)
	}
	r.shown.say("%s: draining, %d under way", name, w.Load)
	if _, err := o.await(ctx, r.client, w, r.shown); err != nil {
		return fmt.Errorf("%w; the engine was not restarted; pdrouter undrain %s gives it requests again", err, o.id)
	}
	r.shown.say("%s: drained, restarting", name)
	began := time.Now()
	if err := r.manager.Restart(ctx, step.unit.Name); err != nil {
		return fmt.Errorf("restart: %w%s; the worker stays drained", err, r.stateOf(ctx, step.unit.Name))
	}
	// Units whose engines may be restarted by anybody undrain when they start.
	if err := r.client.do(ctx, http.MethodPost, o.path()+"/drain", nil); err != nil {
		return err
	}
	r.shown.say("%s: restarted, waiting for the engine", name)
	if err := r.awaitEngine(ctx, step, time.Now()); err != nil {
		return fmt.Errorf("it did not come back: %w; the worker stays drained; when it is well: pdrouter undrain %s", err, o.id)
	}
	if err := r.recheck(ctx, step); err != nil {
		return err
	}
	if kept {
		r.shown.say("%s: back after %s; drained, as it was before", name, time.Since(began).Round(100*time.Millisecond))
		return nil
	}
	if err := r.client.do(ctx, http.MethodPost, o.path()+"/undrain", nil); err != nil {
		return err
	}
	bounded, cancel := context.WithTimeout(ctx, r.within)
	defer cancel()
	if err := untilReady(bounded, r.client, o.id, r.shown); err != nil {
		return fmt.Errorf("undrained, but it gets no requests: %w", err)
	}
	r.shown.say("%s: ready again after %s", name, time.Since(began).Round(100*time.Millisecond))
	return nil
}

// awaitEngine returns when the engine answers its health check, and the daemon,
// having read a report of it that is younger than since, finds nothing wrong.
func (r *restarter) awaitEngine(ctx context.Context, step restart, since time.Time) error {
	bounded, cancel := context.WithTimeout(ctx, r.within)
	defer cancel()
	o := drainOrder{id: step.worker.ID}
	why := ""
	err := r.shown.await(bounded, step.String(), func(ctx context.Context) (progress, error) {
		if units, err := r.manager.Units(ctx, step.unit.Name); err == nil && len(units) == 1 && units[0].Active == "failed" {
			return progress{}, errors.New("the unit has failed" + r.stateOf(ctx, step.unit.Name))
		}
		if why = r.unhealthy(ctx, step.worker.URL); why == "" {
			w, gone, err := o.look(ctx, r.client)
			if err != nil || gone {
				return progress{}, errors.Join(err, map[bool]error{true: errors.New("somebody has removed the worker")}[gone])
			}
			why = unseen(w, since)
		}
		return progress{done: why == "", share: -1, text: why}, nil
	})
	switch {
	case ctx.Err() != nil:
		return errors.New("interrupted while waiting for it: " + why)
	case bounded.Err() != nil:
		return fmt.Errorf("not within %v: %s", r.within, why)
	}
	return err
}

// recheck has the daemon look at the engine anew: one that had run for a short time
// only cannot be told from the next by what it says. It returns when that is done.
func (r *restarter) recheck(ctx context.Context, step restart) error {
	o := drainOrder{id: step.worker.ID}
	if err := r.client.do(ctx, http.MethodPost, o.path()+"/recheck", nil); err != nil {
		return err
	}
	return r.awaitEngine(ctx, step, time.Time{})
}

// unseen says what the daemon still has against a worker whose engine has started
// anew; nothing if it would be given requests.
func unseen(w admin.WorkerInfo, since time.Time) string {
	if why := whyOf(w); why != "" {
		return why
	}
	if w.EngineLoad != nil && w.EngineLoad.Timestamp.Before(since) {
		return "the router has not read it yet"
	}
	return ""
}

// unhealthy asks an engine itself how it is, and returns why it is not well. The
// daemon is asked only of engines that cannot be spoken to without its
// certificates.
func (r *restarter) unhealthy(ctx context.Context, url string) string {
	if strings.HasPrefix(url, "https:") {
		return ""
	}
	bounded, cancel := context.WithTimeout(ctx, healthTime)
	defer cancel()
	client, base := engineClient(url)
	defer client.CloseIdleConnections()
	req, err := http.NewRequestWithContext(bounded, http.MethodGet, base+"/health", http.NoBody)
	if err != nil {
		return err.Error()
	}
	resp, err := client.Do(req)
	if err != nil {
		return "it does not answer yet"
	}
	defer resp.Body.Close()
	_, _ = io.CopyN(io.Discard, resp.Body, healthPage)
	if s := resp.StatusCode; s >= http.StatusInternalServerError {
		return fmt.Sprintf("/health answers %d", s)
	}
	return ""
}

// stateOf says how a unit is.
func (r *restarter) stateOf(ctx context.Context, unit string) string {
	units, err := r.manager.Units(context.WithoutCancel(ctx), unit)
	if err != nil || len(units) != 1 {
		return ""
	}
	return fmt.Sprintf(" (%s, %s); journalctl -u %s says why", units[0].Active, units[0].Result, unit)
}

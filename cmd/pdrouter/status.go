package main

import (
	"fmt"
	"math"
	"strings"
	"time"

	"pdrouter/admin"

	"github.com/spf13/cobra"
)

// A statusOrder is what status is told.
type statusOrder struct {
	place  adminPlace
	asJSON bool
	watch  time.Duration
}

func newStatusCommand() *cobra.Command {
	var o statusOrder
	cmd := &cobra.Command{
		Use:   "status",
		Short: "Show a running daemon at one glance: requests, lines, workers, KV",
		Long: `status asks a running daemon how it is: its requests by phase, who waits for what,
and of each worker whether it gets requests and if not why and until when, how
many it has, how many of them are queued in its engine, and how full its KV cache
is. In a bar, solid is in use; of decode workers, shaded is reserved beside that
for requests that will grow.`,
		Example: `  pdrouter status
  pdrouter status --watch 2s
  pdrouter status --json | jq '.workers[] | {id, kv}'`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return o.run(cmd) },
	}
	o.place.bind(cmd)
	cmd.Flags().BoolVar(&o.asJSON, "json", false, "print the daemon's answer as it is")
	cmd.Flags().DurationVar(&o.watch, "watch", 0, "show it again and again, each time after so `long`, until it is interrupted")
	return cmd
}

func (o *statusOrder) run(cmd *cobra.Command) error {
	c, err := o.place.client()
	if err != nil {
		return err
	}
	defer c.close()
	s := newScreen(cmd.OutOrStdout())
	for {
		now, raw, err := c.status(cmd.Context())
		switch {
		case err != nil && o.watch > 0 && cmd.Context().Err() != nil:
			return nil
		case err != nil:
			return fmt.Errorf("status: %w", err)
		case o.asJSON:
			s.say("%s", strings.TrimSpace(string(raw)))
		default:
			if o.watch > 0 && s.terminal {
				s.say("\x1b[H\x1b[2J%s", time.Now().Format("15:04:05"))
			}
			showStatus(s, &now)
		}
		if o.watch <= 0 || !pause(cmd.Context(), o.watch) {
			return nil
		}
	}
}

// phaseOrder is the order in which phases are told.
func phaseOrder() []string { return []string{"accept", "admit", "prefill", "hand-off", "relay"} }

// showStatus shows a daemon to people.
func showStatus(s *screen, now *admin.Status) {
	state := "up " + upText(now.Uptime)
	if now.Draining {
		state = s.paint(yellow, "stopping: no new requests") + ", " + state
	}
	s.say("pdrouter %s, %s", now.Version, state)
	var phases []string
	for _, p := range phaseOrder() {
		if n := now.Requests.Phases[p]; n > 0 {
			phases = append(phases, fmt.Sprintf("%d in %s", n, p))
		}
	}
	text := thousands(now.Requests.Running) + " " + plural(now.Requests.Running, "request")
	if len(phases) > 0 {
		text += ": " + strings.Join(phases, ", ")
	}
	s.wrap("", text)
	for _, l := range now.Lines {
		text := fmt.Sprintf("%d of them %s for %s", l.Waiting, map[bool]string{true: "waits", false: "wait"}[l.Waiting == 1], lackWords(l.Lacks))
		if l.Model != "" {
			text += ", for model " + l.Model
		}
		if l.Oldest != nil {
			text += ", the first for " + shortTime(*l.Oldest)
		}
		s.wrap("", s.paint(yellow, text))
	}
	for _, role := range []string{"prefill", "decode"} {
		showRole(s, now, role)
	}
	for _, p := range now.Pairs {
		s.say("%s", s.paint(yellow, fmt.Sprintf("pair %s and %s: breaker %s", p.Prefill, p.Decode, breakerText(p.Breaker))))
	}
}

// showRole shows the workers of a role, a line each, and below it why it gets no
// requests.
func showRole(s *screen, now *admin.Status, role string) {
	name, shown := len("prefill"), 0 // as wide for both roles
	for i := range now.Workers {
		name = max(name, len(now.Workers[i].ID))
		if now.Workers[i].Role == role {
			shown++
		}
	}
	s.say("")
	if shown == 0 {
		s.say("%s", s.paint(red, "There is no "+role+" worker."))
		return
	}
	room := s.width() - name - 28 // for KV
	bar := min(max(room-50, 6), 30)
	s.say("%s", s.paint(dim, fmt.Sprintf("  %-*s  %-9s %-12s KV", name, role, "status", "requests")))
	for i := range now.Workers {
		w := &now.Workers[i]
		if w.Role != role {
			continue
		}
		why := whyIdle(w)
		status := fmt.Sprintf("%-9s", w.Status)
		switch {
		case w.Status == admin.Ready && len(why) == 0:
			status = s.paint(green, status)
		case w.Status == admin.Ready || w.Status == admin.Draining || w.Status == admin.Drained:
			status = s.paint(yellow, status)
		default:
			status = s.paint(red, status)
		}
		s.say("  %-*s  %s %-12s %s", name, w.ID, status, requestsText(w), strings.TrimRight(kvText(s, &w.KV, bar, room), " "))
		for _, reason := range why {
			s.wrap(strings.Repeat(" ", name+4), s.paint(yellow, reason))
		}
	}
}

// requestsText returns the requests of a worker, and those that wait in its
// engine.
func requestsText(w *admin.WorkerStatus) string {
	if w.Waiting != nil && *w.Waiting > 0 {
		return fmt.Sprintf("%d, %.0f queued", w.InFlight, *w.Waiting)
	}
	return fmt.Sprint(w.InFlight)
}

// kvText draws a KV cache in a bar of that many columns, and says how full it is
// in what is left of room.
func kvText(s *screen, kv *admin.KVInfo, columns, room int) string {
	if kv.Used == nil || kv.Capacity == nil || *kv.Capacity <= 0 {
		text := "not known"
		if kv.Unread != "" {
			text += ": " + kv.Unread
		}
		return s.paint(dim, tailless(text, room))
	}
	used, beside := *kv.Used / *kv.Capacity, 0.0
	parts := []string{fmt.Sprintf(" %3.0f %% of %s", 100*used, amount(*kv.Capacity))}
	if kv.SecondsFull != nil {
		parts = append(parts, ", full in "+shortTime(*kv.SecondsFull))
	}
	if kv.Reserved != nil {
		// What is reserved contains what these requests use already.
		beside = max(*kv.Reserved / *kv.Capacity - used, 0)
		parts = append(parts, ", "+amount(*kv.Reserved)+" reserved")
	}
	if kv.ReportAge != nil && *kv.ReportAge > staleReport {
		parts = append(parts, ", told "+shortTime(*kv.ReportAge)+" ago")
	}
	text := ""
	for _, part := range parts {
		if text != "" && columns+len(text)+len(part) > room {
			break
		}
		text += part
	}
	return s.kvBar(columns, used, beside) + text
}

// tailless returns the first columns of a text.
func tailless(text string, columns int) string {
	if len(text) > columns && columns > 3 {
		return text[:columns-3] + "..."
	}
	return text
}

// staleReport is from what age on a report's age is worth telling, in seconds.
const staleReport = 5

// whyIdle returns why a worker gets no requests, a line for each reason.
func whyIdle(w *admin.WorkerStatus) []string {
	var all []string
	if w.Reason != "" {
		all = append(all, w.Reason)
	}
	for _, b := range w.Bars {
		text := map[string]string{"breaker": "breaker open", "probes": "its probes fail", "stalled": "it makes no progress", "backpressure": "it has enough to do"}[b.Cause]
		if text == "" {
			text = b.Cause
		}
		if b.Until != nil {
			text += ", for " + upText(max(time.Until(*b.Until).Seconds(), 0)) + " more"
		}
		if b.Reason != "" {
			text += ": " + b.Reason
		}
		all = append(all, text)
	}
	if w.Breaker == "half_open" {
		all = append(all, "breaker half-open: one request at a time tries whether it works again")
	}
	return all
}

func breakerText(state string) string { return strings.ReplaceAll(state, "_", "-") }

// amount returns a number of tokens in three digits: 812, 65.5k, 2.00M.
func amount(n float64) string {
	for _, unit := range []string{"", "k", "M", "G"} {
		if math.Abs(n) < 999.5 || unit == "G" {
			if unit == "" {
				return fmt.Sprintf("%.0f", n)
			}
			return fmt.Sprintf("%.*f%s", max(0, 2-int(math.Log10(max(n, 1)))), n, unit)
		}
		n /= 1000
	}
	return ""
}

// upText returns a long time: 12s, 5m, 3h12m, 2d4h.
func upText(seconds float64) string {
	switch d := int(seconds); {
	case d < 60:
		return fmt.Sprintf("%ds", d)
	case d < 3600:
		return fmt.Sprintf("%dm%ds", d/60, d%60)
	case d < 86400:
		return fmt.Sprintf("%dh%dm", d/3600, d/60%60)
	default:
		return fmt.Sprintf("%dd%dh", d/86400, d/3600%24)
	}
}

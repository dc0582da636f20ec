package main

import (
	"reflect"
	"slices"
	"strings"

	"pdrouter/admin"
)

// reloadable returns the names of the settings that a reload puts in force. All
// others need a restart: what they set is opened, or made, once.
func reloadable() []string {
	return strings.Fields(`
		prefill decode load-monitor-interval disable-load-monitoring worker-startup-check-interval kv-events
		drain-settle-secs worker-warmup-secs worker-warmup-share
		discovery-provider discovery-file discovery-check-interval-secs

		policy prefill-policy decode-policy routing-key-override sticky-sessions
		max-index-blocks prefill-hold prefix-hash-load-factor prefix-hash-balance-abs-threshold
		least-load-kv-pressure-weight least-load-default-throughput least-load-mean-prefill-tokens least-load-max-waiting-requests
		power-of-two-load-metric bucket-adjust-interval-secs
		balance-abs-threshold spill-abs-threshold balance-rel-threshold spill-rel-threshold
		max-idle-secs sticky-key-idle-secs assignment-mode

		max-concurrent-requests rate-limit-tokens-per-second queue-size queue-timeout-secs
		prefill-max-inflight-requests-per-worker prefill-queue-size prefill-queue-timeout-secs
		pd-admission-wait-secs priority-scheduler-default-max-class

		retry-max-retries retry-initial-backoff-ms retry-backoff-multiplier retry-max-backoff-ms retry-jitter-factor disable-retries

		connect-timeout-secs upstream-pool-idle-timeout-secs first-byte-timeout-secs stream-idle-timeout-secs request-timeout-secs
		client-stall-secs stream-body-stall-timeout-secs shutdown-grace-period-secs
		max-payload-size max-buffered-bytes max-answer-size
		request-id-headers routing-key-headers cors-allowed-origins

		api-key tenant-api-key worker-api-key admin-api-key
		tls-cert-path tls-key-path ca-cert-paths client-cert-path client-key-path
		log-level`)
}

// needsRestart reports whether a reload leaves s as it is in old, although they
// differ.
func (s *setting) needsRestart(old *setting) bool {
	switch s.name {
	case "tls-cert-path", "tls-key-path": // a listener speaks TLS or does not
		return isEmpty(s.value.plain()) != isEmpty(old.value.plain())
	}
	return !s.reloads
}

// differs reports whether s, which is acted on, says something else than in old.
// Workers are compared one by one elsewhere.
func (s *setting) differs(old *setting) bool {
	if _, is := s.value.(*workerList); is || s.value == nil || s.hint || s.standing != enforced {
		return false
	}
	return !reflect.DeepEqual(s.value.plain(), old.value.plain())
}

// changesFrom returns what in says otherwise than old.
func (in *intake) changesFrom(old *intake) []admin.SettingChange {
	changes := []admin.SettingChange{}
	for i := range in.settings {
		now, before := &in.settings[i], &old.settings[i]
		if !now.differs(before) {
			continue
		}
		c := admin.SettingChange{Setting: now.name, Old: before.value.plain(), New: now.value.plain(), NeedsRestart: now.needsRestart(before)}
		if now.secret {
			c.Old, c.New = stars(c.Old), stars(c.New)
		}
		changes = append(changes, c)
	}
	return changes
}

// stars returns what is shown of a secret value: that there is one.
func stars(v any) any {
	switch v := v.(type) {
	case []string:
		return slices.Repeat([]string{redacted}, len(v))
	case string:
		if v == "" {
			return v
		}
	}
	return redacted
}

// keep puts back what only a restart can change.
func (in *intake) keep(old *intake) {
	for i := range in.settings {
		now, before := &in.settings[i], &old.settings[i]
		if !now.differs(before) || !now.needsRestart(before) {
			continue
		}
		if v, can := now.value.(interface{ keep(old value) }); can {
			v.keep(before.value)
		}
	}
}

// keep makes s what old is.
func (s *scalar[T]) keep(old value) {
	if o, is := old.(*scalar[T]); is {
		*s.dst = *o.dst
	}
}

// keep makes l what old is.
func (l *list[T]) keep(old value) {
	if o, is := old.(*list[T]); is {
		*l.dst = *o.dst
	}
}

// A flagText is a flag of the command line with its value.
type flagText struct{ name, text string }

// again returns what the same command line and the file as it is now make, or
// every fault of it.
func (in *intake) again() (*intake, error) {
	next := newIntake()
	next.file = in.file
	for _, g := range in.flags {
		_ = (&bound{next.setting(g.name), next}).Set(g.text) // a fault waits in next
	}
	_, err := next.load()
	return next, err
}

package main

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net/http"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"pdrouter/admin"
	"pdrouter/metrics"
	"pdrouter/policy"
	"pdrouter/workers"

	"go.uber.org/zap"
)

// An inForce is the configuration in force, with what was read of the files that
// it names. It is replaced as a whole, and never changed.
type inForce struct {
	Config
	clients *tls.Config // how clients are spoken to; nil: plain
}

// Reloads are what reading the configuration anew needs.
type reloads struct {
	mu      sync.Mutex // held while it is read: two at a time come one after the other
	from    *intake    // what the configuration in force was made from; nil: nothing that could be read again
	hangups <-chan os.Signal
	level   zap.AtomicLevel
	met     *metrics.Reloads
	failed  atomic.Pointer[time.Time] // when the last one failed; nil: it did not
}

// errStopping refuses a reload that would come too late.
func errStopping() error {
	return &admin.Error{Status: http.StatusConflict, Code: "STOPPING", Message: "The daemon is stopping; nothing was read anew."}
}

func errNoCommandLine() error { return errors.New("this daemon was not started from a command line") }

// Reload implements admin.Reloader: it reads file and certificates anew, with
// the same command line, and puts in force what can be without a restart. If
// anything is wrong with any of it, nothing changes.
func (d *daemon) Reload() (admin.Reload, error) {
	d.reload.mu.Lock()
	defer d.reload.mu.Unlock()
	if d.reload.from == nil {
		return admin.Reload{}, errNoCommandLine()
	}
	if !d.manager.reloading(d.tell) {
		return admin.Reload{}, errStopping()
	}
	done, err := d.readAnew()
	now := time.Now()
	d.reload.met.Ended(err == nil, now)
	if err != nil {
		d.reload.failed.Store(&now)
		d.log.Warn("configuration not reloaded: the one before stays in force", zap.Strings("faults", faultLines(err)))
	} else {
		d.reload.failed.Store(nil)
		d.logReload(done)
	}
	d.manager.reloaded(d.tell, d.statusLine)
	return done, err
}

// logReload says by name what has changed, and what has not.
func (d *daemon) logReload(r admin.Reload) {
	var names []string
	for _, c := range r.Settings {
		if !c.NeedsRestart {
			names = append(names, c.Setting)
		}
	}
	d.log.Info("configuration reloaded", zap.Strings("settings", names),
		zap.Strings("workers_added", r.Added), zap.Strings("workers_removed", r.Removed), zap.Strings("workers_changed", r.Changed))
	if names := r.NeedRestart(); len(names) > 0 {
		d.log.Warn("settings need a restart: they are as they were", zap.Strings("settings", names))
	}
}

// readAnew does what Reload does, and says what has changed.
func (d *daemon) readAnew() (admin.Reload, error) {
	next, err := d.reload.from.again()
	if err != nil {
		return admin.Reload{}, err
	}
	d.discovery.mu.Lock() // its file comes and goes with the rest
	defer d.discovery.mu.Unlock()
	n, err := d.prepare(next)
	if err != nil {
		return admin.Reload{}, err
	}
	done, err := d.apply(n)
	if err != nil {
		return admin.Reload{}, err
	}
	for _, w := range next.warnings {
		d.log.Warn("setting not acted on", zap.String("flag", "--"+w.Setting), zap.String("why", w.Text))
	}
	return done, nil
}

// Compare implements admin.Reloader. It opens no file that the configuration
// names, only those of the one in force: who may ask this must not learn by it
// what is in a file.
func (d *daemon) Compare(config []byte) (done admin.Reload, err error) {
	d.reload.mu.Lock()
	defer d.reload.mu.Unlock()
	if d.reload.from == nil {
		return done, errNoCommandLine()
	}
	next := newIntake()
	if err := next.readYAML("configuration", config); err != nil {
		return done, err
	}
	next.translate()
	what, err := find(d.current.Load().Config)
	if err := errors.Join(append(next.faults, err)...); err != nil {
		return done, err
	}
	done.Settings = next.changesFrom(d.reload.from)
	d.discovery.mu.Lock()
	defer d.discovery.mu.Unlock()
	d.newRosterLocked(next.cfg.Workers.Specs, what).tell(&done)
	return done, nil
}

// A renewal is a configuration that is about to be in force: nothing can be wrong
// with it any more but that it does not fit the workers that others have added.
type renewal struct {
	from    *intake
	next    *inForce
	changes []admin.SettingChange
	found   found // in the discovery file
}

// prepare returns next as it is to be put in force, with what needs a restart as
// it is now.
func (d *daemon) prepare(next *intake) (*renewal, error) {
	now, changes := d.current.Load(), next.changesFrom(d.reload.from)
	next.keep(d.reload.from)
	s := &inForce{Config: next.cfg}
	s.Choosing.Seed, s.Choosing.Branches = now.Choosing.Seed, now.Choosing.Branches
	var err error
	fault := s.Validate() // with what is kept of the old one it may be another thing than it was
	s.clients, err = s.serverTLS()
	fault = errors.Join(fault, err, d.checkHanded(s.AdminAPIKey))
	s.Exchange.TLS, err = s.workerTLS()
	fault = errors.Join(fault, err)
	if sameTLS(s.Exchange.TLS, now.Exchange.TLS) {
		s.Exchange.TLS = now.Exchange.TLS // so that connections are kept
	}
	what, err := find(s.Config)
	if fault = errors.Join(fault, err); fault != nil {
		return nil, asConfigFault(unique(fault))
	}
	return &renewal{from: next, next: s, changes: append(changes, s.renewed(now)...), found: what}, nil
}

// newRosterLocked compares the workers with those that are named. The caller has
// the discovery's lock.
func (d *daemon) newRosterLocked(static []workers.Spec, what found) *roster {
	return newRoster(d.registry.Statuses(), slices.Concat(d.static, d.discovery.known), slices.Concat(static, what.specs))
}

// unique returns err with each of its lines once.
func unique(err error) error {
	var lines []string
	for _, line := range faultLines(err) {
		if !slices.Contains(lines, line) {
			lines = append(lines, line)
		}
	}
	return errors.New(strings.Join(lines, "\n"))
}

// checkHanded reports that the admin API would be open to anybody at a socket
// that the service manager has handed over.
func (d *daemon) checkHanded(key string) error {
	for _, door := range d.adminHanded {
		if key == "" && door.Addr().Network() != unixNetwork {
			return fmt.Errorf("admin-api-key: it guards %s, which came from the service manager", door.Addr())
		}
	}
	return nil
}

// apply puts n in force, and says how that differs from what was. The registry
// comes first, because it can refuse.
func (d *daemon) apply(n *renewal) (admin.Reload, error) {
	s := n.next
	r, err := d.applyWorkers(n)
	if err != nil {
		return admin.Reload{}, asConfigFault(err)
	}
	d.static = r.entries[:len(s.Workers.Specs)]
	d.discovery.adoptLocked(s.Config, n.found, r.entries[len(s.Workers.Specs):])
	d.handler.Reload(s.Router)
	d.met.SetPolicies(s.legPolicies())
	d.reload.level.SetLevel(levelOf(s.LogLevel))
	d.reload.from = n.from
	d.current.Store(s)
	done := admin.Reload{Settings: n.changes}
	r.tell(&done)
	return done, nil
}

// applyTries is how often it is tried to change the workers while somebody else
// does so too, by the admin API.
const applyTries = 5

// applyWorkers puts in force what is the registry's.
func (d *daemon) applyWorkers(n *renewal) (r *roster, err error) {
	s := n.next
	for range applyTries {
		r = d.newRosterLocked(s.Workers.Specs, n.found)
		var added []*workers.Worker
		added, err = d.registry.Reload(workers.Reload{
			Config: s.Workers, Conns: s.Exchange, Remove: r.remove, Add: r.add, Keys: r.keys,
			Choose: func(old workers.Chooser) workers.Chooser { return d.rechoose(old, s.Config) },
		})
		if err == nil {
			r.seat(added)
			return r, nil
		}
		if !errors.Is(err, workers.ErrUnknownWorker) && !errors.Is(err, workers.ErrExists) {
			break
		}
	}
	return nil, err
}

// rechoose returns who chooses by next: old, if nothing of that has changed.
func (d *daemon) rechoose(old workers.Chooser, next Config) workers.Chooser {
	if !d.choosesAnew(next) {
		return old
	}
	prefill, decode := next.legPolicies()
	renewed, ok := policy.Renew(old, prefill, decode, next.Choosing)
	if !ok {
		return old // the names have been validated
	}
	return renewed
}

// choosesAnew reports whether another policy is wanted, or one of other
// parameters.
func (d *daemon) choosesAnew(next Config) bool {
	now := d.current.Load()
	a, b := now.legPolicies()
	c, e := next.legPolicies()
	return a != c || b != e || now.Choosing != next.Choosing
}

// heedHangups reloads at each SIGHUP until ctx ends. What becomes of it is
// logged.
func (d *daemon) heedHangups(ctx context.Context) error {
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-d.reload.hangups:
			_, _ = d.Reload()
		}
	}
}

package main

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"time"
)

// underLoad does something while clients send requests. It lets them have some
// answers before, and some after.
func (h *host) underLoad(do func(*load) error) (*load, error) {
	l := startLoad(h.ctx)
	err := h.good(l, 10*time.Second)
	if err == nil {
		err = do(l)
	}
	if err == nil {
		l.mark()
		err = h.good(l, 10*time.Second)
	}
	l.end()
	return l, err
}

// good waits for an answer to a request that was sent after mark.
func (h *host) good(l *load, limit time.Duration) error {
	return eventually(h.ctx, limit, func() error {
		l.mu.Lock()
		defer l.mu.Unlock()
		if l.lastGood.IsZero() {
			return fmt.Errorf("no request is answered: %s", strings.Join(l.samples, "; "))
		}
		return nil
	})
}

// lossless is underLoad where nothing may be lost.
func (h *host) lossless(do func(*load) error) (string, error) {
	l, err := h.underLoad(do)
	return l.figures(), errors.Join(err, l.lost())
}

// lossless does a thing so many times.
func (h *host) times(n int, line string) func(*load) error {
	return func(l *load) error {
		for range n {
			l.mark()
			if err := errors.Join(h.do(line), h.good(l, 10*time.Second)); err != nil {
				return err
			}
		}
		return nil
	}
}

func (h *host) restarts() (string, error) {
	return h.lossless(h.times(10, "systemctl restart pdrouter"))
}

func (h *host) reloads() (string, error) {
	if !h.has("reload") {
		return "", errNotBuilt
	}
	return h.lossless(h.times(20, "systemctl reload pdrouter"))
}

// engineRestarts restarts one engine after the other: their units drain them.
func (h *host) engineRestarts() (string, error) {
	return h.lossless(func(*load) error {
		for _, e := range engines() {
			if err := h.do("systemctl restart " + e.unit()); err != nil {
				return err
			}
			err := eventually(h.ctx, 15*time.Second, func() error {
				table, err := h.output("/usr/bin/pdrouter", "workers")
				if ready := strings.Count(table, " ready "); ready != len(engines()) {
					return fmt.Errorf("%d workers are ready: %s %w", ready, table, err)
				}
				return nil
			})
			if err != nil {
				return err
			}
		}
		return nil
	})
}

func (h *host) upgrade() (string, error) {
	mine, err := os.ReadFile(configPath)
	if err != nil {
		return "", err
	}
	old := h.mainPID()
	figure, err := h.lossless(func(*load) error { return h.do("dpkg -i " + inside + "/new.deb") })
	if err != nil {
		return figure, err
	}
	program, err := h.output("/usr/bin/pdrouter", "--version")
	if err != nil || !strings.Contains(program, "+upgrade") || h.mainPID() == old {
		return figure, fmt.Errorf("the program is %s, the process still %s: %w", program, old, err)
	}
	now, err := os.ReadFile(configPath)
	if err != nil || string(now) != string(mine) {
		return figure, fmt.Errorf("the operator's configuration is another after the upgrade: %w", err)
	}
	return figure, nil
}

// maxAway is how long the router may be away after it was killed.
const maxAway = 2 * time.Second

// kill does away with the process under load, and looks when it is back.
func (h *host) kill(how string, within time.Duration) (string, error) {
	old, away, open := h.mainPID(), time.Duration(0), 0
	l, err := h.underLoad(func(l *load) error {
		open = l.mark()
		began := time.Now()
		if err := h.do("kill " + how + " " + old); err != nil {
			return err
		}
		err := h.good(l, within+10*time.Second)
		away = time.Since(began)
		return err
	})
	figure := fmt.Sprintf("answers again after %.2f s, %d under way; %s", away.Seconds(), open, l.figures())
	switch {
	case err != nil:
		return figure, err
	case h.mainPID() == old:
		return figure, errors.New("it is the process that it was")
	case l.refused > 0:
		return figure, fmt.Errorf("connections were refused: %s", strings.Join(l.samples, "; "))
	case l.failed+l.cut > open:
		return figure, fmt.Errorf("more was lost than was under way: %s", strings.Join(l.samples, "; "))
	case away > within:
		return figure, fmt.Errorf("it was away for %v, want %v at most", away, within)
	}
	return figure, nil
}

func (h *host) crash() (string, error) { return h.kill("-KILL", maxAway) }

// wedge stops the process, as if it hung. systemd has to find out.
func (h *host) wedge() (string, error) {
	const dropIn = "/run/systemd/system/pdrouter.service.d/hosttest.conf"
	err := errors.Join(write(dropIn, "[Service]\nWatchdogSec=2s\n", 0o644), h.do("systemctl daemon-reload", "systemctl restart pdrouter"))
	if err != nil {
		return "", err
	}
	figure, err := h.kill("-STOP", 2*time.Second+maxAway)
	if text, _ := h.output("journalctl", "-u", unit, "--no-pager", "-o", "cat"); !strings.Contains(text, "Watchdog timeout") {
		err = errors.Join(err, errors.New("the journal knows of no watchdog"))
	}
	return figure, errors.Join(err, os.RemoveAll("/run/systemd/system/pdrouter.service.d"), h.do("systemctl daemon-reload", "systemctl restart pdrouter"))
}

package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"pdrouter/workers"

	"go.uber.org/zap"
)

// snapshotInterval is the time between two writings of --index-snapshot: what
// a router that is killed forgets at most.
const snapshotInterval = 30 * time.Second

// snapshotSettings are those about what outlives the router.
func (in *intake) snapshotSettings() []setting {
	return ofPolicies(
		[]string{"cache_aware"},
		setting{name: "index-snapshot", value: newText(&in.cfg.IndexSnapshot, "file"), usage: "cache_aware: file for what is known of the workers' caches and speeds, written every 30 s and at the end, read at the start; none: a router that is restarted begins anew"},
	)
}

// checkSnapshot reports why the file of --index-snapshot could not be kept.
func (c Config) checkSnapshot() error { return checkKept("index-snapshot", c.IndexSnapshot) }

// checkKept reports why the file that a flag names could not be written again
// and again, each time by a rename. Empty: there is none.
func checkKept(flag, path string) error {
	if path == "" {
		return nil
	}
	fault := func(format string, args ...any) error {
		return fmt.Errorf("%s: %q: %w", flag, path, fmt.Errorf(format, args...))
	}
	dir := filepath.Dir(path)
	about, err := os.Stat(dir)
	switch {
	case err != nil:
		return fault("its directory: %w", err)
	case !about.IsDir():
		return fault("%s is no directory", dir)
	}
	// The numbers are POSIX's W_OK, X_OK and R_OK.
	if err := syscall.Access(dir, 2|1); err != nil {
		return fault("no file may be made in %s: %w", dir, err)
	}
	about, err = os.Stat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		return fault("%w", err)
	case !about.Mode().IsRegular():
		return fault("it is no regular file")
	}
	if err := syscall.Access(path, 4); err != nil {
		return fault("it may not be read: %w", err)
	}
	return nil
}

// newKeeper returns what keeps the file of --index-snapshot, if there is one, and
// what a successor is told of. That policies have nothing to remember the setting
// warns of.
func (d *daemon) newKeeper() *workers.Keeper {
	cfg := workers.KeeperConfig{File: d.cfg.IndexSnapshot, MaxBlocks: d.cfg.Choosing.MaxBlocks, Interval: snapshotInterval}
	return workers.NewKeeper(d.registry, cfg, d.logSnapshot)
}

// logSnapshot logs what became of the file of --index-snapshot.
func (d *daemon) logSnapshot(e workers.SnapshotEvent) {
	log := d.log.With(zap.String("file", e.File))
	size := []zap.Field{zap.Int("workers", e.Workers), zap.Int("blocks", e.Blocks), zap.Duration("took", e.Took)}
	switch reason := zap.String("reason", oneLine(e.Err)); {
	case e.Written && e.Err != nil:
		log.Warn("index snapshot not written", reason, zap.String("remedy", "see that its directory exists, is writable and has room; it is tried again every 30 s"))
	case e.Written && e.Again:
		log.Info("index snapshot written again", size...)
	case e.Written:
		log.Debug("index snapshot written", append(size, zap.Int64("bytes", e.Bytes))...)
	case errors.Is(e.Err, fs.ErrNotExist):
		log.Info("no index snapshot yet")
	case e.Err != nil:
		log.Warn("index snapshot ignored, or part of it", append(size, reason, zap.String("remedy", "none is needed: it is written anew as soon as there is something to remember"))...)
	default:
		log.Info("index snapshot read", size...)
	}
}

// oneLine returns what err says; nothing if it is nil.
func oneLine(err error) string {
	if err == nil {
		return ""
	}
	return strings.ReplaceAll(err.Error(), "\n", "; ")
}

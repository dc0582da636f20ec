// Command pdrouter routes LLM requests to pairs of prefill and decode workers.
//
// This package is the only place with flags, files, signals and exit codes. A
// command line is first brought into one form (argv.go), then gathered with
// the file of --config into one Config (intake.go), which is checked as a whole
// (config.go) and run (serve.go). What can be set is one table: settings.go for
// what this release does, later.go for what it takes but does not do yet,
// unneeded.go for what it takes so that smg's command lines go on working.
package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop) // so that a second signal ends the process at once
	err := newRootCommand(os.Args[1:]).ExecuteContext(ctx)
	stop()
	os.Exit(report(os.Stderr, err))
}

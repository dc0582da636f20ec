package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"text/tabwriter"
	"time"

	"pdrouter/sim"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	binary := flag.String("binary", "bin/pdrouter", "the router")
	dir := flag.String("dir", ".cache/loadtools", "where tools/loadtools.sh has put the tools")
	duration := flag.Duration("duration", 20*time.Second, "how long each tool sends requests")
	flag.Parse()
	err := run(ctx, *binary, *dir, *duration)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "loadtools:", err)
		os.Exit(1) //nolint:forbidigo // func main exits
	}
}

// run runs each tool against either dialect, and prints a table.
func run(ctx context.Context, binary, dir string, duration time.Duration) error {
	table := tabwriter.NewWriter(os.Stdout, 0, 8, 2, ' ', 0)
	fmt.Fprintln(table, "tool\tversion\tdialect\trequests\terrors\tTTFT p50 told\tmeasured\tITL p50 told\tmeasured")
	var faults []error
	for _, dialect := range []string{sim.SGLang, sim.VLLMNixl} {
		f, err := newFleet(ctx, dialect, binary)
		if err != nil {
			return err
		}
		for _, t := range tools() {
			told, got, err := t.measure(ctx, f, dir, duration)
			if err != nil {
				faults = append(faults, fmt.Errorf("%s, %s: %w", t.name, dialect, err))
				continue
			}
			fmt.Fprintf(table, "%s\t%s\t%s\t%d\t%d\t%.1f ms\t%.1f ms\t%.1f ms\t%.1f ms\n", t.name, t.version(dir), dialect,
				got.requests, got.errors, told.ttft, got.ttft, told.itl, got.itl)
			if err := got.judge(told); err != nil {
				faults = append(faults, fmt.Errorf("%s, %s: %w", t.name, dialect, err))
			}
		}
		f.stop()
	}
	return errors.Join(append(faults, table.Flush())...)
}

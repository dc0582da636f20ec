package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"syscall"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, os.Args[1:])
	stop()
	if err != nil && !errors.Is(err, flag.ErrHelp) {
		fmt.Fprintln(os.Stderr, "overhead:", err)
		os.Exit(1) //nolint:forbidigo // func main exits
	}
}

// run is either one part of the benchmark or all of it.
func run(ctx context.Context, args []string) error {
	if len(args) > 0 {
		if part := parts()[args[0]]; part != nil {
			return part(ctx, args[1:])
		}
	}
	opts, err := parseOptions(args)
	if err != nil {
		return err
	}
	return bench(ctx, opts)
}

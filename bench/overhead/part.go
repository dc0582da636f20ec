package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"
)

// The systems that are measured, by their names in the report.
const (
	router = "router"
	other  = "other"
	floor  = "floor"
	pooled = "pooled"
	twoLeg = "two-leg"
	oneLeg = "one-leg"
)

// parts are the processes of the benchmark that are this program again. Lists
// are comma-separated host:port.
func parts() map[string]func(ctx context.Context, args []string) error {
	return map[string]func(ctx context.Context, args []string) error{
		"engines": enginesPart, // DIALECT PREFILLS DECODES
		"proxy":   proxyPart,   // NAME ADDR DIALECT PREFILLS DECODES
		"load":    loadPart,    // ADDR WORKLOAD REQUESTS: for cmd's BenchmarkOverhead
	}
}

func enginesPart(ctx context.Context, args []string) error {
	if len(args) != 3 {
		return errors.New("engines: want DIALECT PREFILLS DECODES")
	}
	f := newFleet(args[0])
	g, ctx := errgroup.WithContext(ctx)
	for i, role := range []string{prefill, decode} {
		for addr := range strings.SplitSeq(args[1+i], ",") {
			ln, err := new(net.ListenConfig).Listen(ctx, "tcp", addr)
			if err != nil {
				return err
			}
			g.Go(func() error { return f.serve(ctx, ln, role) })
		}
	}
	return g.Wait()
}

// proxyPart runs one of the baselines.
func proxyPart(ctx context.Context, args []string) error {
	if len(args) != 5 {
		return errors.New("proxy: want NAME ADDR DIALECT PREFILLS DECODES")
	}
	handler, err := newBaseline(args[0], args[2], strings.Split(args[3], ","), strings.Split(args[4], ","))
	if err != nil {
		return err
	}
	ln, err := new(net.ListenConfig).Listen(ctx, "tcp", args[1])
	if err != nil {
		return err
	}
	srv := &http.Server{Handler: handler, ReadHeaderTimeout: 30 * time.Second}
	defer context.AfterFunc(ctx, func() { _ = srv.Close() })()
	if err := srv.Serve(ln); !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("serve: %w", err)
	}
	return nil
}

func newBaseline(name, dialect string, prefills, decodes []string) (http.Handler, error) {
	switch name {
	case floor:
		return newFloor(prefills, decodes)
	case pooled:
		return newPooled(prefills, decodes), nil
	case twoLeg:
		return newTwoLeg(dialect, prefills, decodes), nil
	case oneLeg:
		return newOneLeg(decodes), nil
	}
	return nil, fmt.Errorf("baseline %q is unknown", name)
}

func loadPart(ctx context.Context, args []string) error {
	if len(args) != 3 {
		return errors.New("load: want ADDR WORKLOAD REQUESTS")
	}
	w, err := findWorkload(args[1])
	if err != nil {
		return err
	}
	n, err := strconv.Atoi(args[2])
	if err != nil {
		return fmt.Errorf("load: requests: %w", err)
	}
	l, err := newLoad(ctx, args[0], w, min(16, n))
	if err != nil {
		return err
	}
	defer l.close()
	_, err = l.run(func(sent int) bool { return sent < n })
	return err
}

package main

import (
	"context"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"syscall"
	"testing"
	"time"

	"pdrouter/workers"
)

// BenchmarkOverhead runs the router in this process, and its engines and
// clients, which are bench/overhead's, in others: so what -benchmem and
// -cpuprofile see is the router alone. `make pgo` makes default.pgo of it.
// Other than ns/op, which the engines and the clients are part of, cpu-us/op is
// the router's own.
func BenchmarkOverhead(b *testing.B) {
	tool := filepath.Join(b.TempDir(), "overhead")
	if out, err := exec.Command("go", "build", "-o", tool, "pdrouter/bench/overhead").CombinedOutput(); err != nil {
		b.Fatalf("build bench/overhead: %v\n%s", err, out)
	}
	for _, dialect := range []string{"sglang", "vllm-nixl"} {
		b.Run(dialect, func(b *testing.B) {
			addr := startBetweenStubs(b, tool, dialect)
			for _, workload := range []string{"1kb", "32kb", "1mb", "stream", "paced"} {
				b.Run(workload, func(b *testing.B) { benchmarkLoad(b, tool, addr, workload) })
			}
		})
	}
}

func benchmarkLoad(b *testing.B, tool, addr, workload string) {
	b.ReportAllocs()
	before := cpuUsed(b)
	if out, err := exec.Command(tool, "load", addr, workload, strconv.Itoa(b.N)).CombinedOutput(); err != nil {
		b.Fatalf("load %s: %v\n%s", workload, err, out)
	}
	b.ReportMetric(float64((cpuUsed(b)-before).Nanoseconds())/1e3/float64(b.N), "cpu-us/op")
}

// cpuUsed returns the CPU time that this process has used.
func cpuUsed(b *testing.B) time.Duration {
	b.Helper()
	var used syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &used); err != nil {
		b.Fatal(err)
	}
	return time.Duration(used.Utime.Nano() + used.Stime.Nano())
}

// startBetweenStubs runs bench/overhead's engines and a router with its usual
// log until b ends, and returns the router's address.
func startBetweenStubs(b *testing.B, tool, dialect string) (addr string) {
	b.Helper()
	ctx, stop := context.WithCancel(context.Background())
	b.Cleanup(stop)
	prefill, decode := freeAddr(b), freeAddr(b)
	engines := exec.CommandContext(ctx, tool, "engines", dialect, prefill, decode)
	engines.Stderr = os.Stderr
	if err := engines.Start(); err != nil {
		b.Fatal(err)
	}
	cfg := DefaultConfig()
	cfg.Host, cfg.Port, cfg.MetricsHost, cfg.MetricsPort = "127.0.0.1", 0, "127.0.0.1", 0
	cfg.AdminSocket = noSocket
	cfg.Workers.Specs = []workers.Spec{
		{Role: workers.Prefill, URL: "http://" + prefill},
		{Role: workers.Decode, URL: "http://" + decode},
	}
	logFile, err := os.Create(filepath.Join(b.TempDir(), "log"))
	if err != nil {
		b.Fatal(err)
	}
	d, err := newDaemon(ctx, cfg, nil, newLogger(levelOf(cfg.LogLevel), cfg, logFile))
	if err != nil {
		b.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- d.run(ctx) }()
	b.Cleanup(func() {
		stop()
		if err := <-ended; err != nil {
			b.Errorf("the daemon ended with %v", err)
		}
		_ = engines.Wait() // it was killed
		logFile.Close()
	})
	awaitReady(b, d)
	return d.data.Addr().String()
}

// awaitReady returns when requests can be carried.
func awaitReady(b *testing.B, d *daemon) {
	b.Helper()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for range 500 {
		if d.registry.Look(b.Context()); len(d.registry.Dialects("")) > 0 {
			return
		}
		<-tick.C
	}
	b.Fatal("the engines are not ready")
}

// freeAddr returns an address on loopback that nobody listens at.
func freeAddr(b *testing.B) string {
	b.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		b.Fatal(err)
	}
	defer ln.Close()
	return ln.Addr().String()
}

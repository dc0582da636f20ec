// Command overhead measures what the router costs: CPU of its process per
// request, memory, latency. It runs the real binary between engines and clients
// that cost next to nothing, on loopback, beside proxies that do the least:
//
//	router   bin/pdrouter, as it is
//	other    another build of it, if -other names one: ratios to it are a paired
//	         comparison
//	pooled   two legs written straight to pooled connections (pooled.go; SGLang only)
//	floor    the two-leg proxy on package exchange (floor.go; SGLang only)
//	two-leg  the least that sends two legs with http.Transport (twoleg.go)
//	one-leg  httputil.ReverseProxy in front of decode alone (oneleg.go)
//
// and, with -rivals, other people's routers as they come (rival.go).
//
// It is no load test: latency and requests per second are those of a machine
// that engines, proxy and clients share, good for comparing them and for
// nothing else. What holds on another machine are the ratios of CPU.
//
// # Life of a run
//
// Each system, and the engines, is a process of its own: this program again,
// with the part's name as first argument (part.go). In each round every
// workload is run on every system in turn, because the machine drifts; the
// median over the rounds counts. Then as many streams as -streams says are held
// open on a fresh process of each system, to see its memory.
//
// The engines are stubs (engine.go), not package sim. Sim decodes the whole
// body and keeps a KV pool: a leg of 1 KB costs it more CPU than the whole
// request costs the router, and 1 MB is more than its context. On two cores the
// router would wait for it, and latency and the coalescing of chunks would show
// sim's speed. Stubs say who they are, read a body to its end, check that
// hand-off keys are in it, and send an answer that was made beforehand.
//
// At the end, what decides where a request goes is measured by itself, in this
// process: registry, policy and breakers (choosing.go).
//
// # Invariants
//
// An answer counts only if it has status 200 and the length that the engine
// gave it. A system that hands off must have sent as many legs with hand-off
// keys to either role as it answered requests; else the run fails.
//
// # Units
//
// CPU is user and system time of the process, as the kernel's scheduler counts
// it. Memory is what /proc calls VmRSS and VmHWM, the latter since the run began.
package main

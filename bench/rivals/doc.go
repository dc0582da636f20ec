// Command rivals runs other people's routers and ours in turns before the same
// engines, and writes docs/benchmarks.md from what it saw:
//
//	overhead  CPU, memory and latency, by bench/overhead (overhead.go)
//	faults    the same engines failing in the same ways (fault.go)
//	routing   a slice of a public trace over HTTP, by pdrouter replay (routing.go)
//
// The trace meets several fleets, one of them overloaded: which router chooses
// better depends on how many engines there are and how busy, and the page is to
// show where ours is worse too.
//
// It is no test of ours alone: that is bench/chaos. What is said of a rival is
// what it does as it comes from PyPI, with its defaults.
//
// # Life of a run
//
// Each rival is installed into a virtual environment of its own, from the pins in
// testdata, unless it is there. Each part of the measurement is kept in a file
// when it has ended; those that are not run again stand on the page as they
// were, with their date.
//
// # Invariants
//
// Every wait ends: a request after ten seconds, a router's start after a minute.
// Every process that was started is killed, with its children, at the end.
package main

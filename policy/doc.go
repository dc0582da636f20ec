// Package policy chooses which pair of workers a request goes to. It is pure:
// no I/O, no clock, no goroutine.
//
// A request's prompt is reduced to a [Fingerprint], and a policy, a
// [workers.Chooser], maps fingerprint and loads to a pair. A new policy is one
// file, one test file and one line in [Lookup].
//
// # Units
//
// Load is counted in requests under way, as in workers, and divided by the
// weight of a worker, which is below 1 while it is being warmed.
//
// # Concurrency
//
// Policies are called under the registry's lock, one call at a time.
package policy

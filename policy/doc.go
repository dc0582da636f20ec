// Package policy chooses which pair of workers a request goes to, and which of
// the requests that wait goes next. It is pure: no I/O, no clock but the time
// passed in, no goroutine.
//
// It is not the registry: who may be leased, and the leases themselves, are
// workers'. A policy is a [workers.Chooser]; [New] makes one of two names, one
// for each leg. A new policy is one file, one test file and one line in the
// table of lookup.go. All but [CacheAware] are a [Picker] for one leg, and
// [Legs] of two of them.
//
// # Life of a request
//
//  1. Its prompt is cut into blocks and hashed into a chain ([Chain]): equal
//     hashes stand for equal beginnings. Prompts that must not share KV blocks
//     are seeded apart. What the client says of which requests belong together
//     is hashed too ([StickyOf]), and is a hint, never above the load.
//  2. [CacheAware.Look] finds how much of it each worker is believed to hold,
//     before the registry's lock is taken.
//  3. [CacheAware.Choose] takes the pair with the least cost, or
//     [CacheAware.Next] keeps the request until a worker is about to run dry.
//     The worker is believed to hold the prompt from then on.
//  4. [CacheAware.Ended] compares what prefill found and took with what was
//     expected.
//
// # The index
//
// It is one set of hashes for each worker (held): as large as what the engine
// keeps, with the same order of eviction. So a worker is removed by dropping
// one pointer, and a block costs 27 bytes for each worker that holds it. Since
// no block is dropped before those that follow it, how much of a prompt is held
// is found by bisection: some eight probes, of which most are saved by the
// guess that workers hold the same beginning.
//
// # KV events
//
// An engine that publishes what it stores and drops is not guessed at: its
// worker's set follows what it says (mirror). An engine names its blocks, which
// are tokens, in ways of its own, so where a block of ours ends in them is
// learnt: when a prefill leg has ended, the engine has just stored one sequence
// of blocks that is as long as the prompt (bind.go). It is noted under a hash of
// the tokens themselves (names), and so holds for all workers.
//
// # What is learnt
//
// Each worker's speed, as a line through its legs (speed); how much of its KV
// pool an engine really keeps, from prompts of which less was found than
// believed (keep), or, if engines do not say what they found, from legs that
// took too long; how many bytes make a token (ratio), which is what a KV pool
// in tokens is measured by, and, with what engines report, how long blocks are
// (blockSize); and which blocks nearly all prompts begin with (shared).
// [CacheAware.Known] tells. [CacheAware.Remember] and [CacheAware.Overall] give
// all of it as plain values, which a router that is started again gives back
// (workers.Keeper).
//
// # Units
//
// A block is [CacheAware.BlockBytes] of prompt: 512 bytes, or as long as the
// engines' own. Load is counted in requests under way, as in
// workers, and divided by the weight of a worker, which is below 1 while it is
// being warmed. Costs of cache_aware are times.
//
// # Concurrency
//
// Choose and Next are called under the registry's lock, one call at a time. The
// methods of workers.Looker and workers.Learner may be called by any goroutine
// at any time. Look takes no lock. KV events are taken in under locks of their
// own, for which no choice waits.
package policy

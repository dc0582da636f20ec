// Package health decides which workers, and which pairs of them, may take
// requests. It judges by what happened to requests ([Judge.Began],
// [Judge.Ended]), by what engines report of themselves ([Judge.Reported]), by
// probes ([Monitor]) and by requests of its own ([Canaries]). It says what it
// decided by bars in the registry, which then leases to others, and by an
// [Event] for people.
//
// It picks no pair for a client and knows no router: canaries are sent by a
// function that it is given.
//
// # Whose fault it is
//
//   - 429 and 503 are backpressure and nobody's fault. The worker is barred for
//     what Retry-After asks, 5 s at most; else for 100 ms, doubled to 1 s while
//     it goes on, and from the beginning again after a success.
//   - A leg that we cancelled says nothing. Neither does a 400, which is a leg
//     done well (I7).
//   - What failed between a prefill and a decode worker charges the pair. If one
//     of the two failed by itself in the same attempt, or was too busy, that
//     explains it, and the pair is not charged.
//   - A worker is suspected when hand-offs with two different partners have
//     failed within the window, and none with them has worked since. Of a pair,
//     the one with more such partners is suspected; with equally many, neither:
//     it cannot be told which, and the pairs' own breakers keep requests away
//     until a hand-off with somebody else shows it. As many failed hand-offs in
//     a row as --cb-failure-threshold open the suspect's breaker. They are
//     counted apart from its own failures, because a prefill leg whose KV never
//     arrives was a success as such.
//   - Everything else that goes wrong is the failure of the leg's worker.
//
// # Breakers
//
// Each worker has one, and each pair whose hand-off has failed once. A breaker
// opens after --cb-failure-threshold failures in a row (10), or when of at least
// --cb-min-requests outcomes (20) the part --cb-failure-ratio (0.8) has failed;
// what is older than --cb-window-duration-secs (120) does not count. An outcome
// counts at the moment when it is known, however long the request took; what was
// let in before the last change of state does not count any more.
//
// It stays open for --cb-timeout-duration-secs (60), with a fifth of jitter, and
// twice as long with each opening that follows without a closing, up to five
// minutes. Then it is half-open: one request at a time tries it, and a bar keeps
// the others away meanwhile. After --cb-success-threshold successes in a row (3)
// it closes; one failure opens it again. A trial that was cancelled, or met
// backpressure, counts nothing and gives its place back.
//
// For decode's breaker, and for the pair's, a trial has succeeded when its first
// token comes: that shows what was in doubt, and the stream may go on for an
// hour. Should it break later, that is a failure of its own, which opens the
// breaker again while it is half-open, and is one of many once it is closed.
//
// A request needs the leave of both workers' breakers and the pair's: it gets
// all of them or none.
//
// The last worker of a role, which is the only one that is ready, has nothing
// held against it and serves the model, is treated with care, because to bar it
// is to refuse everything. Dead connections in a row, or the ratio, open its
// breaker; failures in a row do not. It stays open for 2 s at most, and one
// success closes it. Who becomes the last while its breaker is open for longer is
// tried within 2 s. The last pair opens by the ratio only, for 2 s too.
// Neither probes nor silence nor a lack of progress bar the last worker, except
// one that has never been well and says itself that it is not.
//
// # Life, and progress
//
//   - A worker with requests running for which nothing moved for
//     --worker-wedge-secs (no tokens, no space in use, no outcome of ours, in
//     three reports in a row) is barred until it works, or has nothing to do. That
//     requests come and go shows that it may, and lets nobody in again.
//   - A connection that fails after --worker-stall-secs without any sign of life
//     bars the worker at once, until it is heard of or 10 s have passed.
//   - A worker that has given reports, and gives none, nor any other sign of
//     life for --worker-stale-secs (no outcome, no first token, no probe
//     answered, no page of whatever content), is barred until it is heard of.
//     So a process that is stopped, for which the kernel still accepts
//     connections, is found without a request that waits for it.
//   - A probe that fails --health-failure-threshold times in a row bars the
//     worker until --health-success-threshold have succeeded; in doubt, it is
//     probed once per second. A good answer to a client within the interval
//     counts as one. A 401, 403 or 404 shows that our configuration is wrong,
//     and that the engine is alive; it is told, and bars nobody.
//   - The bootstrap server of an SGLang prefill engine is asked whenever the
//     engine is, and its failure is a failed probe: no hand-off works without
//     it, though /health says 200. It is asked what a decode engine asks, and
//     what it tells of page size and KV dtype completes what is known of the
//     engine. One that was never reached from here, while hand-offs work, is in
//     a network that we do not see, and bars nobody; nor does one that does not
//     have that page.
//   - An engine whose process is a new one starts without any of this.
//
// # Canaries
//
// With --canary-interval, a pair that has had no request for so long is sent one
// of one token, one in all per interval: that of two engines which both say they
// are well no KV comes across shows in nothing else. It is judged like a
// client's request, by the same breakers, and let in like one: no bar and no open
// breaker lets it pass, so that it finds nothing sooner than a trial would, but
// once the open time is over the trial may be it. Every other canary goes through
// a pair whose last one failed, so that a breaker is opened, or closed, in a few
// intervals.
//
// # Invariants
//
//   - A closed breaker refuses nobody. A half-open one has one trial at most.
//   - A bar for Breaking is in force while a breaker is open or a trial is under
//     way, and only then. Every bar ends by itself: if nobody renews it, the
//     worker is tried again.
//   - Each leg ends once; a second end panics (I1).
//
// # Concurrency
//
// Everything here is safe for concurrent use. A request that succeeds takes a
// handful of short locks, each of one worker, and allocates only what gobreaker
// does: once for each outcome that it books. Registry and observer are called
// outside of them. Only failures, reports and probes take the one lock that
// settles who is the last of a role. A Monitor has one probe of a worker under
// way at most, each bounded in time and size; canaries are sent one at a time.
package health

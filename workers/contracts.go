package workers

// A Chooser picks the pair for one request. Package policy implements it.
type Chooser interface {
	// Choose returns a pair of one of pools. There is at least one pool, and
	// each has at least one worker of either role. All of them may serve the
	// request.
	//
	// Choose is called under the registry's lock: it must not block,
	// allocate, keep its arguments or call back. The loads that it sees count
	// every lease that was granted before.
	Choose(need Need, pools []Pool) Choice
}

// A Need is what a request asks of a pair.
type Need struct {
	Model string // empty: any
	Key   uint64 // groups requests whose prompts begin alike; 0: none
}

// A Pool is a set of workers in which every prefill worker can be paired with
// every decode worker.
type Pool struct {
	Dialect         string
	Prefill, Decode []*Load
}

// A Load is a worker as a Chooser sees it.
type Load struct {
	Worker   *Worker
	InFlight int    // leases not yet done
	Picked   uint64 // when it was leased last: larger is later, 0 is never
}

// A Choice names a pair by position: a pool, and a worker of either role in it.
type Choice struct {
	Pool, Prefill, Decode int
}

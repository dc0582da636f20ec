package sim

// Stats is what an engine is doing now, and what it has done.
type Stats struct {
	Connections  int // open ones to the API
	Requests     int // HTTP requests being served that generate
	Running      int // sequences that compute or generate
	Waiting      int // sequences without blocks
	Preempted    int // of the waiting ones, those that had begun their answer
	Transferring int // sequences with blocks that wait for their KV

	BlockSize    int // tokens
	TotalBlocks  int
	UsedBlocks   int // by sequences, or held; never the merely cached ones
	HeldBlocks   int // waiting to be pulled, part of the used ones
	CachedBlocks int // found again by prefix, used or not
	IdleBlocks   int // found again by prefix, used by none

	CapacityTokens, UsedTokens int

	TotalRequests   uint64 // HTTP requests that generate, of any outcome
	Finished        uint64 // sequences answered
	Failed          uint64 // sequences not answered
	Aborted         uint64
	PromptTokens    uint64 // of the answered sequences
	CachedTokens    uint64 // of them, reported as cached
	GeneratedTokens uint64
	DecodedTokens   uint64 // as they come, of whatever becomes of the sequence
	QueriedTokens   uint64 // prompt tokens looked up in the prefix cache
	HitTokens       uint64 // found there
	ComputedTokens  uint64 // prompt and answer tokens computed at once, repetitions too
	FirstComputed   uint64 // prompt tokens computed, without repetitions
	ReceivedTokens  uint64 // whose KV came from prefill
	Transfers       uint64 // hand-offs done
	FailedTransfers uint64
	Recomputes      uint64 // prompts computed on decode because no KV came
	Preemptions     uint64
	ExpiredHolds    uint64 // holds that nobody pulled in time
	ReusedRooms     uint64 // rooms used again, one after the other
}

// Stats returns the engine's state.
func (e *Engine) Stats() Stats {
	n := &e.counts
	st := Stats{
		Requests:        int(n.serving.Load()),
		TotalRequests:   n.requests.Load(),
		Finished:        n.stopped.Load() + n.reached.Load(),
		Failed:          n.failed.Load(),
		Aborted:         n.aborted.Load(),
		PromptTokens:    n.streamed[0].prompt.Load() + n.streamed[1].prompt.Load(),
		CachedTokens:    n.cached.Load(),
		GeneratedTokens: n.streamed[0].generated.Load() + n.streamed[1].generated.Load(),
		DecodedTokens:   n.decoded.Load(),
		ReceivedTokens:  n.received.Load(),
		Transfers:       n.transfers.Load(),
		FailedTransfers: n.failedTransfers.Load(),
		Recomputes:      n.recomputes.Load(),
		ExpiredHolds:    n.expired.Load(),
		ReusedRooms:     n.reused.Load(),
	}
	e.api.mu.Lock()
	st.Connections = len(e.api.conns)
	e.api.mu.Unlock()
	e.sched.stats(&st)
	return st
}

// stats fills in what the scheduler knows.
func (s *scheduler) stats(st *Stats) {
	s.mu.Lock()
	defer s.mu.Unlock()
	st.Running, st.Waiting, st.Transferring = len(s.running), len(s.queue), s.arriving
	for _, q := range s.queue {
		if q.generated.Load() > 0 {
			st.Preempted++
		}
	}
	if s.computing {
		st.Running, st.Transferring = st.Running+1, st.Transferring-1
	}
	p := s.pool
	st.BlockSize, st.TotalBlocks = p.size, len(p.blocks)
	st.UsedBlocks, st.HeldBlocks = len(p.blocks)-p.nfree, p.held
	st.CachedBlocks, st.IdleBlocks = len(p.index), p.idle
	st.CapacityTokens, st.UsedTokens = st.TotalBlocks*p.size, st.UsedBlocks*p.size
	st.QueriedTokens, st.HitTokens = s.counts.queried, s.counts.hit
	st.ComputedTokens, st.Preemptions = s.counts.computed, s.counts.preemptions
	st.FirstComputed = s.counts.first
}

// flush empties the prefix cache; false if requests are being served.
func (s *scheduler) flush() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.queue)+len(s.running)+s.arriving > 0 {
		return false
	}
	s.pool.flush()
	return true
}

package sim

import (
	"encoding/json"
	"net/http"
	"sync"
	"time"
)

// holds is the blocks that a vLLM prefill engine keeps for decode engines, and
// its side channel, by which those pull them. The three paths are the sim's
// own; real engines speak ZMQ and NIXL there.
type holds struct {
	e   *Engine
	mux *http.ServeMux

	mu     sync.Mutex
	byID   map[string]*hold
	pulled recent[string] // ids of holds that were pulled
}

// A hold is the blocks of one prompt until they are pulled or their lease
// ends.
type hold struct {
	blocks []*block
	lease  *time.Timer
}

// The paths of the side channel.
const (
	pullPath      = "/sim/pull"
	heartbeatPath = "/sim/heartbeat"
	releasePath   = "/sim/release"
)

// A pull is what a decode engine asks of a side channel.
type pull struct {
	EngineID  string `json:"engine_id"`
	RequestID string `json:"request_id"`
	BlockIDs  []int  `json:"block_ids"`
}

// pulledKV is the answer: what the blocks hold now, whoever wrote it.
type pulledKV struct {
	Prompt      uint64 `json:"prompt"`
	Gone        bool   `json:"gone"`         // nothing is held under that id: compute it
	WrongEngine bool   `json:"wrong_engine"` // another engine, or the same restarted
}

func newHolds(e *Engine) *holds {
	h := &holds{e: e, mux: http.NewServeMux(), byID: map[string]*hold{}}
	h.mux.HandleFunc("POST "+pullPath, h.servePull)
	h.mux.HandleFunc("POST "+heartbeatPath, h.serveHeartbeat)
	h.mux.HandleFunc("POST "+releasePath, h.serveRelease)
	return h
}

// ServeHTTP implements http.Handler.
func (h *holds) ServeHTTP(w http.ResponseWriter, r *http.Request) { h.mux.ServeHTTP(w, r) }

// keep holds the blocks of a sequence, which leaves the scheduler, under id.
func (h *holds) keep(id string, q *sequence) []int {
	held := &hold{blocks: h.e.sched.hold(q)}
	ids := make([]int, len(held.blocks))
	for i, b := range held.blocks {
		ids[i] = b.id
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.byID[id] = held
	held.lease = time.AfterFunc(h.e.cfg.Lease, func() { h.expire(id) })
	return ids
}

// expire frees blocks that nobody asked for.
func (h *holds) expire(id string) {
	if h.free(id) {
		h.e.counts.expired.Add(1)
	}
}

// free gives the blocks of a hold back; false if it is held no more.
func (h *holds) free(id string) bool {
	h.mu.Lock()
	held := h.byID[id]
	delete(h.byID, id)
	h.mu.Unlock()
	if held == nil {
		return false
	}
	held.lease.Stop()
	h.e.sched.freeHeld(held.blocks)
	return true
}

// close frees all.
func (h *holds) close() {
	h.mu.Lock()
	ids := make([]string, 0, len(h.byID))
	for id := range h.byID {
		ids = append(ids, id)
	}
	h.mu.Unlock()
	for _, id := range ids {
		h.free(id)
	}
}

// decodePull reads what a decode engine asks for.
func decodePull(w http.ResponseWriter, r *http.Request) (p pull, ok bool) {
	if err := json.NewDecoder(r.Body).Decode(&p); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return p, false
	}
	return p, true
}

// servePull hands out what the blocks hold, and frees them.
func (h *holds) servePull(w http.ResponseWriter, r *http.Request) {
	p, ok := decodePull(w, r)
	if !ok {
		return
	}
	var kv pulledKV
	if p.EngineID != h.e.id {
		kv.WrongEngine = true
	} else {
		kv = h.take(p)
	}
	_ = json.NewEncoder(w).Encode(kv)
}

// take looks into the blocks and frees them. A real engine has no means to
// tell that they were pulled before: it looks into them again.
func (h *holds) take(p pull) pulledKV {
	h.mu.Lock()
	held := h.byID[p.RequestID] != nil
	again := h.pulled.has(p.RequestID)
	if held {
		h.pulled.add(p.RequestID)
	}
	h.mu.Unlock()
	switch {
	case !held && !again:
		return pulledKV{Gone: true}
	case again:
		h.e.violations.add(PulledTwice)
	}
	kv := pulledKV{Prompt: h.e.sched.content(p.BlockIDs)}
	h.free(p.RequestID)
	h.e.counts.transfers.Add(1)
	return kv
}

// serveHeartbeat renews a lease, for a request that queues on decode.
func (h *holds) serveHeartbeat(w http.ResponseWriter, r *http.Request) {
	p, ok := decodePull(w, r)
	if !ok {
		return
	}
	h.mu.Lock()
	if held := h.byID[p.RequestID]; held != nil {
		held.lease.Reset(h.e.cfg.Lease)
	}
	h.mu.Unlock()
	_, _ = w.Write([]byte("{}"))
}

// serveRelease frees the blocks of a request that decode has dropped.
func (h *holds) serveRelease(w http.ResponseWriter, r *http.Request) {
	p, ok := decodePull(w, r)
	if !ok {
		return
	}
	h.free(p.RequestID)
	_, _ = w.Write([]byte("{}"))
}

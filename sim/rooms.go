package sim

import (
	"context"
	"encoding/json"
	"net/http"
	"strconv"
	"sync"
	"time"
)

// rooms is where SGLang's legs meet: a prefill engine's bootstrap server. The
// sim's own part of it is joinPath: there, decode's request waits for the KV.
type rooms struct {
	e   *Engine
	mux *http.ServeMux

	mu    sync.Mutex
	table map[uint64]*room
	past  recent[uint64] // rooms that have been used
}

// A room is one number under which a prefill and a decode leg meet. Real
// engines keep their state by this number alone, so of two pairs that use one
// at the same time the later decode gets the earlier prefill's KV, and the
// other decode nothing.
type room struct {
	number   uint64
	prefills int
	first    *leg          // the only prefill leg that hands over
	decode   *join         // the decode leg that gets it: the latest
	joined   chan struct{} // closed when the first decode has come
}

// A join is a decode leg that waits for its KV.
type join struct{ kv chan handOff }

// handOff is what stands for the KV of a prompt on its way to decode.
type handOff struct {
	Prompt uint64 `json:"prompt"` // its identity
	Tokens int    `json:"tokens"`
	Cached int    `json:"cached"` // tokens that prefill had not to compute
	Error  string `json:"error,omitempty"`
}

// joinPath is asked by decode engines for the KV of ?room=N.
const joinPath = "/sim/join"

func newRooms(e *Engine) *rooms {
	r := &rooms{e: e, mux: http.NewServeMux(), table: map[uint64]*room{}}
	r.routes()
	return r
}

// ServeHTTP implements http.Handler.
func (r *rooms) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	w.Header().Set("Server", "Python/3.11 aiohttp/3.14.5")
	r.mux.ServeHTTP(w, req)
}

// get returns the room of a number, making it if it is not in use.
func (r *rooms) getLocked(number uint64) *room {
	at := r.table[number]
	if at == nil {
		at = &room{number: number, joined: make(chan struct{})}
		r.table[number] = at
	}
	return at
}

// arrive lets a prefill leg into its room; leave must follow.
func (r *rooms) arrive(l *leg) *room {
	r.mu.Lock()
	defer r.mu.Unlock()
	at := r.getLocked(l.room)
	at.prefills++
	switch {
	case at.prefills > 1:
		r.e.violations.add(RoomTwice)
	case at.first == nil:
		at.first = l
		if r.past.add(l.room) {
			r.e.counts.reused.Add(1)
		}
	}
	return at
}

// deliver hands the KV of a prefill leg, or why there is none, to the decode
// leg in its room. It reports false if that one has left.
func (r *rooms) deliver(at *room, l *leg, kv handOff) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if at.first != l {
		return true
	}
	if at.decode == nil {
		return false
	}
	at.decode.kv <- kv
	at.decode = nil
	return true
}

// leave lets a prefill leg out.
func (r *rooms) leave(at *room) {
	r.mu.Lock()
	defer r.mu.Unlock()
	at.prefills--
	r.sweepLocked(at)
}

// sweepLocked forgets a room that nobody is in.
func (r *rooms) sweepLocked(at *room) {
	if at.prefills == 0 && at.decode == nil {
		delete(r.table, at.number)
	}
}

// await waits until decode has joined the room.
func (at *room) await(ctx context.Context, d time.Duration) error {
	select {
	case <-at.joined:
		return nil
	default:
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-at.joined:
		return nil
	case <-timer.C:
		return context.DeadlineExceeded
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// waiting returns how many prefill legs wait for decode.
func (r *rooms) waiting() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	n := 0
	for _, at := range r.table {
		select {
		case <-at.joined:
		default:
			n += at.prefills
		}
	}
	return n
}

// join serves a decode engine that wants the KV of a room.
func (r *rooms) join(w http.ResponseWriter, req *http.Request) {
	number, err := strconv.ParseUint(req.URL.Query().Get("room"), 10, 64)
	if err != nil {
		http.Error(w, "no room", http.StatusBadRequest)
		return
	}
	j := &join{kv: make(chan handOff, 1)}
	r.mu.Lock()
	at := r.getLocked(number)
	if at.decode != nil {
		r.e.violations.add(RoomTwice)
	}
	at.decode = j
	select {
	case <-at.joined:
	default:
		close(at.joined)
	}
	r.mu.Unlock()
	select {
	case kv := <-j.kv:
		_ = json.NewEncoder(w).Encode(kv)
	case <-req.Context().Done():
		r.mu.Lock()
		if at.decode == j {
			at.decode = nil
			r.sweepLocked(at)
		}
		r.mu.Unlock()
		panic(http.ErrAbortHandler)
	}
}

// routes registers what a bootstrap server answers.
func (r *rooms) routes() {
	r.mux.HandleFunc("/health", func(w http.ResponseWriter, _ *http.Request) { aiohttp(w, 200, textType, "OK") })
	r.mux.HandleFunc("/route", r.route)
	r.mux.HandleFunc("POST /query_dp_ranks", func(w http.ResponseWriter, _ *http.Request) { aiohttp(w, 200, jsonType, "{}") })
	r.mux.HandleFunc("POST /register_dp_rank", func(w http.ResponseWriter, _ *http.Request) { aiohttp(w, 200, textType, "OK") })
	r.mux.HandleFunc("POST "+joinPath, r.join)
	r.mux.HandleFunc("/", func(w http.ResponseWriter, _ *http.Request) { aiohttp(w, 404, textType, "404: Not Found") })
}

// The content types of aiohttp.
const (
	textType = "text/plain; charset=utf-8"
	jsonType = "application/json; charset=utf-8"
)

func aiohttp(w http.ResponseWriter, status int, kind, body string) {
	w.Header().Set("Content-Type", kind)
	w.Header().Set("Content-Length", strconv.Itoa(len(body)))
	w.WriteHeader(status)
	_, _ = w.Write([]byte(body))
}

// route tells decode engines and routers about this engine.
func (r *rooms) route(w http.ResponseWriter, req *http.Request) {
	switch req.Method {
	case http.MethodGet:
	case http.MethodPut:
		aiohttp(w, 200, textType, "OK")
		return
	default:
		aiohttp(w, 405, jsonType, "Method not allowed")
		return
	}
	query := req.URL.Query()
	all := true
	for _, key := range []string{"prefill_dp_rank", "prefill_cp_rank", "target_tp_rank", "target_pp_rank"} {
		n, err := strconv.Atoi(query.Get(key))
		if err != nil {
			aiohttp(w, 400, textType, "Missing inputs for bootstrap server.")
			return
		}
		all = all && n == -1
	}
	host, port := r.e.apiHostPort()
	if !all {
		_, side := hostPort(r.e.side.Addr())
		aiohttp(w, 200, jsonType, `{"rank_ip": "`+host+`", "rank_port": `+strconv.Itoa(side)+`}`)
		return
	}
	aiohttp(w, 200, jsonType, `{"attn_tp_size": 1, "attn_cp_size": 1, "dp_size": 1, "pp_size": 1, "page_size": `+
		strconv.Itoa(r.e.cfg.BlockSize)+`, "kv_cache_dtype": "auto", "follow_bootstrap_room": true, `+
		`"enable_dsa_cache_layer_split": false, "decode_allocation_policy": "early", `+
		`"enable_kv_cache_sharding": false, "prefill_http_port": `+strconv.Itoa(port)+
		`, "target_tp_rank": null, "target_tp_ranks": null, "target_cp_ranks": null, "target_pp_ranks": null, `+
		`"required_dst_info_num": null, "required_prefill_response_num": null}`)
}

package health

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"

	"pdrouter/exchange"
	"pdrouter/workers"
)

// routePath asks SGLang's bootstrap server what holds for all ranks of its
// prefill engine. Decode engines ask the same before their first hand-off.
const routePath = "/route?prefill_dp_rank=-1&prefill_cp_rank=-1&target_tp_rank=-1&target_pp_rank=-1"

// A route is what a bootstrap server tells of its prefill engine that has to
// agree with decode's. Zero and empty: it does not tell.
type route struct {
	PageSize int    `json:"page_size"`
	KVDtype  string `json:"kv_cache_dtype"`
}

// A bootstrap is a bootstrap server, without which a prefill engine that is
// well in all else cannot hand anything over.
type bootstrap struct {
	peer *exchange.Peer // nil: there is none, or it is not known where
	at   string         // its address, for people
}

func bootstrapOf(s *workers.Status) bootstrap {
	return bootstrap{s.Bootstrap, net.JoinHostPort(s.Facts.BootstrapHost, strconv.Itoa(s.Facts.BootstrapPort))}
}

// askRoute asks a bootstrap server, once. What is no answer to the question, but
// an answer, is that of an engine which does not have the page, or wants it
// asked for in another way, and says nothing.
func askRoute(ctx context.Context, b bootstrap) (answer, route) {
	name := "bootstrap server " + b.at
	got, err := b.peer.Do(ctx, &exchange.Request{Method: http.MethodGet, Path: routePath})
	if err != nil {
		return withoutHandOff(unanswered(ctx, name, err)), route{}
	}
	defer got.Close()
	page, err := io.ReadAll(io.LimitReader(got, maxProbePage))
	switch {
	case err != nil:
		return withoutHandOff(unanswered(ctx, name, err)), route{}
	case got.Status == http.StatusOK:
		var told route
		if json.Unmarshal(page, &told) != nil {
			return answer{reason: name + ": its answer is not that of a bootstrap server"}, route{}
		}
		return answer{}, told
	case got.Status >= 500 && got.Status != http.StatusNotImplemented:
		return withoutHandOff(answer{kind: failing, told: true, reason: fmt.Sprintf("%s: status %d", name, got.Status)}), route{}
	default:
		return answer{}, route{}
	}
}

// withoutHandOff says what it means that a bootstrap server is not well.
func withoutHandOff(a answer) answer {
	if a.kind == failing {
		a.reason += "; no hand-off works without it"
	}
	return a
}

// inspect asks the bootstrap server of a patient that is well otherwise. That it
// could never be reached from here says nothing as long as hand-offs work:
// decode engines may reach it where we do not.
func (m *Monitor) inspect(ctx context.Context, w *workers.Worker, p *patient, b bootstrap) answer {
	bounded, cancel := context.WithTimeout(ctx, m.cfg.ProbeTimeout)
	defer cancel()
	a, told := m.route(bounded, b)
	if a.kind == answering {
		m.judge.registry.Complete(w, told.PageSize, told.KVDtype)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if p.bootstrap != b {
		return answer{kind: noAnswer} // it is another one by now
	}
	p.reached = p.reached || a.kind == answering || a.told
	p.asking = p.asking && a.kind == noAnswer
	if a.kind == failing && !p.reached && p.ward.good.Load() != 0 {
		return answer{reason: a.reason + ", but they do: it is only from here that it is not reached"}
	}
	return a
}

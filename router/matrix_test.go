package router

import (
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"pdrouter/workers"

	"golang.org/x/sync/errgroup"
)

// patience is the limit of time in those cells in which one is waited for.
const patience = 400 * time.Millisecond

// A cell is one fault in one leg or in both, in one dialect and one form.
type cell struct {
	fault   fault
	dialect string
	sick    [2]bool // by role
	stream  bool
}

// TestFaultMatrix: in each cell the client is told the truth, soon; the worker
// at fault is blamed, and only that one; both engines learn of it; no hand-off
// key is used twice; and at rest nothing is left. Each cell is run twice: beside
// the sick pair there is one that is well, or there is none.
func TestFaultMatrix(t *testing.T) {
	var g errgroup.Group
	g.SetLimit(10) // not -parallel: cells wait more than they work
	late := make(chan func(), 2*len(cells()))
	for _, c := range cells() {
		if c.never() != "" {
			continue
		}
		for _, well := range []bool{true, false} {
			g.Go(func() error {
				t.Run(c.name(well), func(one *testing.T) {
					if err := c.run(one, well); err != nil {
						one.Log(err, "(tried again alone)")
						late <- func() { c.runAlone(t, well) }
					}
				})
				return nil
			})
		}
	}
	_ = g.Wait() // failures are t's
	close(late)
	for again := range late {
		again()
	}
}

// runAlone runs a cell that took too long beside others, which may have been
// their fault.
func (c cell) runAlone(t *testing.T, well bool) {
	t.Run(c.name(well)+"/alone", func(t *testing.T) {
		if err := c.run(t, well); err != nil {
			t.Error(err)
		}
	})
}

func cells() []cell {
	var all []cell
	for _, c := range chapters() {
		for _, f := range c.faults {
			for _, dialect := range both {
				for _, sick := range [][2]bool{{true, false}, {false, true}, {true, true}} {
					all = append(all, cell{f, dialect, sick, false}, cell{f, dialect, sick, true})
				}
			}
		}
	}
	return all
}

func (c cell) name(well bool) string {
	legs := map[[2]bool]string{{true, false}: "prefill", {false, true}: "decode", {true, true}: "both"}[c.sick]
	form, beside := "JSON", "nobody well"
	if c.stream {
		form = "stream"
	}
	if well {
		beside = "one well"
	}
	return strings.Join([]string{c.fault.name, c.dialect, legs, form, beside}, "/")
}

// never returns why there is no such cell, if there is none.
func (c cell) never() string {
	for role, sick := range c.sick {
		if s := c.sequel(workers.Role(role)); sick && s.never != "" {
			return s.never
		}
	}
	return ""
}

// sequel returns what the table says of the fault in a leg of that role.
func (c cell) sequel(role workers.Role) sequel {
	switch {
	case role == workers.Prefill:
		return c.fault.prefill
	case c.stream:
		return c.fault.stream
	default:
		return c.fault.json
	}
}

// deed returns what a sick engine of that role does.
func (c cell) deed(role workers.Role) deed {
	if c.fault.do == nil {
		return deed{}
	}
	a := askedFor{role: role, body: chatAnswer}
	if c.stream && role == workers.Decode {
		a.stream, a.frames = true, soundFrames()
	}
	return c.fault.do(a)
}

func (c cell) concurrent() bool { return c.dialect == "sglang" }

// An end is how an attempt may end that fails.
type end struct {
	sequel
	by     workers.Role // whose leg decides
	blames [2]string    // what the leases are told
}

// ends returns how an attempt on engines of which some are sick may end: not at
// all, if nothing goes wrong, and in one of two ways if both legs fail at once.
func (c cell) ends(sick [2]bool) []end {
	var all []end
	fails := func(role workers.Role) bool { return sick[role] && c.sequel(role).shape != whole }
	if fails(workers.Prefill) {
		all = append(all, c.endBy(workers.Prefill))
	}
	waits := !c.concurrent() || c.deed(workers.Decode).met // decode, for prefill
	if fails(workers.Decode) && (len(all) == 0 || !waits && !c.fault.prefill.late) {
		all = append(all, c.endBy(workers.Decode))
	}
	return all
}

// endBy returns the end that a leg of that role brings about.
func (c cell) endBy(role workers.Role) end {
	e := end{sequel: c.sequel(role), by: role}
	first := role == workers.Decode && (!c.concurrent() || c.deed(role).met) // prefill has done its job before
	own, other := e.blame, "canceled"
	if first {
		other = "ok"
	}
	if e.late {
		e.code, own = "request_timeout", "canceled" // how long an answer is may be the client's wish
	}
	if e.late && (c.stream || !first) {
		e.code, own = "first_byte_timeout", "failed"
		if c.concurrent() && !first {
			own, other = "handoff", "handoff" // two that wait for one another
		}
	}
	if strings.HasPrefix(e.code, "_") {
		e.code = role.String() + e.code
	}
	e.blames[role], e.blames[1-role] = own, other
	return e
}

// A firstFit chooses the first pair that there is: the sick one, if it may.
type firstFit struct{}

// Choose implements workers.Chooser.
func (firstFit) Choose(_ workers.Need, pools []workers.Pool) workers.Choice {
	for i := range pools[0].Prefill {
		for j := range pools[0].Decode {
			if pools[0].Fits(i, j) {
				return workers.Choice{Prefill: i, Decode: j}
			}
		}
	}
	return workers.Choice{}
}

// A trialRun is a cell that was run once.
type trialRun struct {
	cell
	*world
	t     *testing.T
	fleet *fleet
	well  bool
	got   answer
	over  time.Time // when nothing was under way any more
	legs  []sight   // that had come by then
	late  error     // what took too long
}

// run runs a cell, and returns an error if all went well, only too late.
func (c cell) run(t *testing.T, well bool) error {
	w := newWorld(t, c.concurrent())
	scripts := [2][]http.HandlerFunc{}
	for role := range scripts {
		do := c.fault.do
		if !c.sick[role] {
			do = nil
		}
		scripts[role] = append(scripts[role], w.engine(workers.Role(role), 0, do))
		if well {
			scripts[role] = append(scripts[role], w.engine(workers.Role(role), 1, nil))
		}
	}
	f := newChosenFleet(t, c.dialect, firstFit{}, scripts, quickly, func(cfg *Config) { c.limit(cfg, well) })
	f.registry.SetJudge(w)
	for role, e := range [2]*engine{f.prefill, f.decode} {
		if c.fault.do == nil && c.sick[role] {
			e.refuse(t)
		}
	}
	r := &trialRun{cell: c, world: w, t: t, fleet: f, well: well}
	r.ask()
	wait(t, "the request to end", func() bool { return len(f.handler.Ages()) == 0 })
	wait(t, "every engine to be done", w.idle)
	f.handler.Wait()
	r.over, r.legs = time.Now(), w.seen()
	r.check()
	return r.late
}

// limit sets short limits of time where one is to be waited for.
func (c cell) limit(cfg *Config, well bool) {
	cfg.FirstByte, cfg.RequestTimeout, cfg.StreamIdle = 20*time.Second, 20*time.Second, 20*time.Second
	if !well {
		cfg.Retries.Attempts = 3
	}
	if c.fault.do == nil { // for the other leg, which nobody can wait for, to have come before the next attempt
		cfg.Retries.Backoff, cfg.Retries.MaxBackoff = 200*time.Millisecond, 200*time.Millisecond
	}
	for role, sick := range c.sick {
		s := c.sequel(workers.Role(role))
		if sick && s.late {
			cfg.FirstByte, cfg.RequestTimeout = patience, 2*patience
		}
		if sick && s.idle {
			cfg.StreamIdle = patience
		}
	}
}

// ask sends the request and reads the answer.
func (r *trialRun) ask() {
	body := chatRequest
	if r.stream {
		body = streamRequest
	}
	req, err := http.NewRequestWithContext(r.t.Context(), http.MethodPost, r.fleet.URL+"/v1/chat/completions", strings.NewReader(body))
	if err != nil {
		r.t.Fatal(err)
	}
	client := http.Client{Timeout: 15 * time.Second, Transport: &http.Transport{DisableKeepAlives: true}}
	resp, err := client.Do(req)
	if err != nil {
		r.t.Fatalf("the client was told nothing: %v", err)
	}
	defer resp.Body.Close()
	first := make([]byte, 1)
	n, _ := io.ReadFull(resp.Body, first)
	close(r.read)
	rest, err := io.ReadAll(resp.Body)
	r.got = answer{status: resp.StatusCode, header: resp.Header, body: string(first[:n]) + string(rest), err: err}
}

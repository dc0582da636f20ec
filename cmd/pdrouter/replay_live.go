package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"

	"pdrouter/bench"
)

// A liveOrder says which router the requests are sent to.
type liveOrder struct {
	url, model, key string
	maxOpen         int
}

func (o *liveOrder) validate() error {
	u, err := url.Parse(o.url)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" || u.User != nil {
		return errors.New("--live: not http://HOST:PORT or https://HOST:PORT")
	}
	return nil
}

// client returns a client of the router. Its connections have to be closed.
func (o *liveOrder) client() *bench.Client {
	transport := &http.Transport{MaxIdleConnsPerHost: o.maxOpen, DisableCompression: true}
	return &bench.Client{
		URL: strings.TrimSuffix(o.url, "/"), Model: o.model, Key: o.key,
		HTTP: &http.Client{Transport: transport},
	}
}

// modelTime bounds the question which models there are.
const modelTime = 10 * time.Second

// firstModel asks the router which models it has, and returns the first.
func firstModel(ctx context.Context, c *bench.Client) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, modelTime)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, c.URL+"/v1/models", http.NoBody)
	if err != nil {
		return "", err
	}
	if c.Key != "" {
		req.Header.Set("Authorization", "Bearer "+c.Key)
	}
	resp, err := c.HTTP.Do(req)
	if err != nil {
		return "", err // names URL and fault
	}
	defer resp.Body.Close()
	const most = 1 << 20
	body, err := io.ReadAll(io.LimitReader(resp.Body, most))
	if err != nil {
		return "", fmt.Errorf("read the answer of %s: %w", req.URL, err)
	}
	if resp.StatusCode != http.StatusOK {
		return "", fmt.Errorf("%s answers status %d: %.200s", req.URL, resp.StatusCode, strings.TrimSpace(string(body)))
	}
	var list struct {
		Data []struct {
			ID string `json:"id"`
		} `json:"data"`
	}
	if err := json.Unmarshal(body, &list); err != nil {
		return "", fmt.Errorf("%s: not a list of models: %w", req.URL, err)
	}
	if len(list.Data) == 0 {
		return "", fmt.Errorf("%s names no model; is a worker ready? Or say --model", req.URL)
	}
	return list.Data[0].ID, nil
}

// liveName is what stands for the policy: which one the router has is not seen
// from outside.
const liveName = "live"

// sendAll sends the requests to the router and shows what came of them, also
// if it is interrupted.
func (r *replayRun) sendAll(ctx context.Context) error {
	c := r.live.client()
	defer c.HTTP.CloseIdleConnections()
	if c.Model == "" {
		model, err := firstModel(ctx, c)
		if ctx.Err() != nil {
			return errInterrupted
		}
		if err != nil {
			return fmt.Errorf("--live: ask for the model: %w", err)
		}
		c.Model = model
	}
	p := livePlay{replayRun: r, began: time.Now()}
	stop := r.progress.move(p.progressRow)
	play := bench.Replay{Client: c, Speed: r.speed, MaxOpen: r.live.maxOpen, Name: fmt.Sprintf("replay-%x-", p.began.UnixMilli())}
	_ = play.Run(ctx, r.reqs, &p.tally) // its one error is the end of ctx
	stop(false)
	return p.report(ctx)
}

// A livePlay is a replay over HTTP that is under way.
type livePlay struct {
	*replayRun

	began time.Time
	tally bench.Tally
}

// progressRow shows how far it has come, by the trace's time.
func (p *livePlay) progressRow(width int) string {
	t := p.tally.Totals()
	whole := p.reqs[len(p.reqs)-1].At()
	at := min(time.Duration(float64(time.Since(p.began))*p.speed), whole)
	text := fmt.Sprintf(" %.0f of %.0f s, %d done, %d open", at.Seconds(), whole.Seconds(), t.Done, t.Open())
	if t.TTFT.Count() > 0 {
		text += ", TTFT " + timeText(t.TTFT.Quantile(0.5))
	}
	if t.Failed > 0 {
		text += p.progress.paint(red, fmt.Sprintf(", %d failed", t.Failed))
	}
	return fmt.Sprintf("   %s%s", p.progress.bar(rowBar(width), fill{at.Seconds() / max(whole.Seconds(), 1e-9), "█", yellow}), text)
}

// report shows what came of it. That nothing was answered is an error.
func (p *livePlay) report(ctx context.Context) error {
	t := p.tally.Totals()
	row := t.Row(liveName)
	if p.asJSON {
		if err := p.printJSON(row); err != nil {
			return err
		}
	} else {
		p.sayLive(&t, row)
	}
	for _, fault := range t.Faults {
		p.progress.say("%s", fault)
	}
	if more := t.Failed - len(t.Faults); more > 0 {
		p.progress.say("and %d more", more)
	}
	switch {
	case ctx.Err() != nil:
		return fmt.Errorf("%w when %d of %d requests had ended; %d that were open say nothing", errInterrupted, t.Done, len(p.reqs), t.Open())
	case t.Failed == t.Done:
		return fmt.Errorf("all %d requests failed", t.Failed)
	}
	return nil
}

// sayLive shows it as a table of one line.
func (p *livePlay) sayLive(t *bench.Totals, row bench.Row) {
	s := p.out
	s.say("%s at %s, %g times as fast:", p.name, p.live.url, p.speed)
	s.say("%s requests ended in %s, %d of them failed.", thousands(t.Done), time.Since(p.began).Round(time.Second), t.Failed)
	s.say("")
	s.say("%s", s.paint(dim, p.heading()))
	s.say("%s", p.line(row, scale{1, row.TTFTMean}, green))
	if t.Done > t.Failed {
		s.say("")
		p.sayUnknown(t)
	}
}

// sayUnknown says what cannot be known of requests that were answered, and why.
func (p *livePlay) sayUnknown(t *bench.Totals) {
	s := p.out
	switch {
	case t.Told == 0:
		s.say("The answers do not say how many tokens were cached, so the hit ratio is not known.")
	case t.Whole == t.Told:
		s.say("Each answer says that all of its prompt was cached, as those of vLLM's decode do: it")
		s.say("counts what prefill has handed over. So the hit ratio is not known.")
	case t.Told < t.Done-t.Failed:
		s.say("The hit ratio is that of the %s answers that say how many tokens were cached.", thousands(t.Told))
	}
	if late := t.Lag.Quantile(0.99); late > time.Second {
		s.say("One in a hundred was sent %s late or more: --max-open, or this machine, is too small.", timeText(late))
	}
	s.say("Which worker had a request is not seen by a client, so the imbalance is not known.")
}

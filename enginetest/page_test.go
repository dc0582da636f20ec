package enginetest

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// A page is the samples of a /metrics page: name with labels, and value.
type page map[string]float64

// scrape reads a page.
func scrape(url string) (page, error) {
	ctx, stop := context.WithTimeout(context.Background(), 10*time.Second)
	defer stop()
	status, body, err := get(ctx, url)
	if err != nil || status != http.StatusOK {
		return nil, fmt.Errorf("%s is %d: %w", url, status, err)
	}
	p := page{}
	for line := range strings.Lines(body) {
		line = strings.TrimSpace(line)
		at := strings.LastIndexByte(line, ' ')
		if at < 0 || line[0] == '#' {
			continue
		}
		if v, err := strconv.ParseFloat(line[at+1:], 64); err == nil {
			p[line[:at]] = v
		}
	}
	return p, nil
}

// sum adds up the samples of a name that have all labels.
func (p page) sum(name string, labels ...string) (total float64) {
	for key, v := range p {
		if rest, ok := strings.CutPrefix(key, name); !ok || rest != "" && rest[0] != '{' || !hasAll(rest, labels) {
			continue
		}
		total += v
	}
	return total
}

func hasAll(text string, parts []string) bool {
	for _, part := range parts {
		if !strings.Contains(text, part) {
			return false
		}
	}
	return true
}

// A load is what an engine says of itself, in tokens where it is of KV.
type load struct {
	running, waiting, moving, used float64
}

// load asks an engine, where it tells the moment: SGLang's /metrics lags.
func (p *pair) load(e *engine) (l load, err error) {
	if p.dialect == "sglang" {
		return sglangLoad(e)
	}
	m, err := scrape(e.url + "/metrics")
	return load{
		running: m.sum("vllm:num_requests_running"), waiting: m.sum("vllm:num_requests_waiting"),
		used: m.sum("vllm:kv_cache_usage_perc"),
	}, err
}

func sglangLoad(e *engine) (l load, err error) {
	ctx, stop := context.WithTimeout(context.Background(), 10*time.Second)
	defer stop()
	_, body, err := get(ctx, e.url+"/v1/loads")
	if err != nil {
		return l, err
	}
	var told struct {
		Loads []struct {
			Running float64        `json:"num_running_reqs"`
			Waiting float64        `json:"num_waiting_reqs"`
			Used    float64        `json:"num_used_tokens"`
			PD      map[string]any `json:"disaggregation"`
		}
	}
	if err := json.Unmarshal([]byte(body), &told); err != nil || len(told.Loads) != 1 {
		return l, fmt.Errorf("loads %.200s: %w", body, err)
	}
	one := told.Loads[0]
	l = load{running: one.Running, waiting: one.Waiting, used: one.Used}
	for key, v := range one.PD {
		if n, ok := v.(float64); ok && strings.HasSuffix(key, "_queue_reqs") {
			l.moving += n
		}
	}
	return l, nil
}

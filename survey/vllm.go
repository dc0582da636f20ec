package survey

import (
	"bytes"
	"context"
	"errors"
	"regexp"
	"strconv"
)

// askVLLM asks an engine as if it were vLLM, which tells most of what it is in its
// metrics, and how many ranks it has nowhere.
func askVLLM(ctx context.Context, p Place) (*Engine, error) {
	var version struct {
		Version string `json:"version"`
	}
	e := &Engine{Kind: VLLM, Handoffs: -1}
	if err := p.getJSON(ctx, "/version", &version, e); err != nil {
		return nil, err
	}
	e.Version = version.Version
	page, err := p.get(ctx, "/metrics", e)
	if errors.Is(err, errNotServed) {
		return e, nil
	}
	if err != nil {
		return nil, err
	}
	e.Metrics = bytes.Contains(page, []byte("vllm:"))
	if e.HandsOver = bytes.Contains(page, []byte("vllm:nixl_")); e.HandsOver {
		e.Backend, e.Handoffs = "nixl", sum(page, "vllm:nixl_xfer_time_seconds_count")
	}
	if config := regexp.MustCompile(`(?m)^vllm:cache_config_info\{(.*)\}`).FindSubmatch(page); config != nil {
		e.PageSize, _ = strconv.Atoi(labelOf(config[1], "block_size"))
		e.KVDtype = labelOf(config[1], "cache_dtype")
	}
	return e, nil
}

// labelOf returns the value of one label of several.
func labelOf(labels []byte, name string) string {
	found := regexp.MustCompile(`(?:^|,)` + regexp.QuoteMeta(name) + `="([^"]*)"`).FindSubmatch(labels)
	if found == nil {
		return ""
	}
	return string(found[1])
}

// sum adds up the samples of a name on a page of metrics; -1 if there are none.
func sum(page []byte, name string) float64 {
	total, any := 0.0, false
	for line := range bytes.Lines(page) {
		rest, ok := bytes.CutPrefix(line, []byte(name))
		if !ok || len(rest) == 0 || rest[0] != '{' && rest[0] != ' ' {
			continue
		}
		words := bytes.Fields(rest[bytes.LastIndexByte(rest, '}')+1:])
		if len(words) == 0 {
			continue
		}
		if v, err := strconv.ParseFloat(string(words[0]), 64); err == nil {
			total, any = total+v, true
		}
	}
	if !any {
		return -1
	}
	return total
}

package main

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
)

// A page is what the router exports: values by series.
type page map[string]float64

// scrape fetches a page of metrics.
func scrape(ctx context.Context, client *http.Client, url string) (page, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url+"/metrics", nil)
	if err != nil {
		return nil, err
	}
	resp, err := client.Do(req)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil || resp.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("/metrics: status %d, %w", resp.StatusCode, err)
	}
	return parsePage(string(text))
}

func parsePage(text string) (page, error) {
	p := page{}
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		if line == "" || line[0] == '#' {
			continue
		}
		at := strings.LastIndexByte(line, ' ')
		value, err := strconv.ParseFloat(line[at+1:], 64)
		if err != nil {
			return nil, fmt.Errorf("/metrics: %s: %w", line, err)
		}
		p[line[:max(at, 0)]] = value
	}
	return p, nil
}

// sum adds up the series of a family that have all of the labels, each written
// as in the page.
func (p page) sum(family string, labels ...string) float64 {
	sum := 0.0
series:
	for series, value := range p {
		name, of, _ := strings.Cut(series, "{")
		if name != family {
			continue
		}
		for _, label := range labels {
			if !strings.Contains(of, label) {
				continue series
			}
		}
		sum += value
	}
	return sum
}

// has reports whether a family has series.
func (p page) has(family string) bool {
	for series := range p {
		if name, _, _ := strings.Cut(series, "{"); name == family || name == family+"_count" {
			return true
		}
	}
	return false
}

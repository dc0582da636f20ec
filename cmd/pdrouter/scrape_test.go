package main

import (
	"bytes"
	"io"
	"net/http"
	"strconv"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus/testutil/promlint"
)

// A page is what Prometheus scrapes: values by series.
type page map[string]float64

// scrape fetches /metrics as Prometheus does. It must be a page that Prometheus
// can parse.
func scrape(t *testing.T, addr string) page {
	t.Helper()
	transport := &http.Transport{DisableKeepAlives: true}
	resp, err := (&http.Client{Transport: transport}).Get("http://" + addr + "/metrics")
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil || resp.StatusCode != http.StatusOK {
		t.Fatalf("/metrics = %d, %v", resp.StatusCode, err)
	}
	if _, err := promlint.New(bytes.NewReader(text)).Lint(); err != nil { // its parser is Prometheus' own
		t.Fatalf("/metrics cannot be parsed: %v\n%s", err, text)
	}
	p := page{}
	for line := range strings.Lines(string(text)) {
		line = strings.TrimSpace(line)
		at := strings.LastIndexByte(line, ' ')
		if line == "" || line[0] == '#' {
			continue
		}
		value, err := strconv.ParseFloat(line[at+1:], 64)
		if err != nil {
			t.Fatalf("%s: %v", line, err)
		}
		if _, twice := p[line[:at]]; twice {
			t.Fatalf("series %s is there twice", line[:at])
		}
		p[line[:at]] = value
	}
	return p
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

// series returns how many a family has.
func (p page) series(family string) int {
	n := 0
	for series := range p {
		if name, _, _ := strings.Cut(series, "{"); name == family {
			n++
		}
	}
	return n
}

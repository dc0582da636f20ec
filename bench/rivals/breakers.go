package main

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"

	"pdrouter/sim"
)

// breakers says how many of the engines' breakers are open, by the router's own
// metrics. All routers here have a gauge for each worker whose name ends alike.
func (p *proxy) breakers(ctx context.Context, engines []*sim.Engine) string {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	page, err := scrape(ctx, p.metrics)
	if err != nil {
		return "not told"
	}
	open, known := openBreakers(page, engines)
	if known == 0 {
		return "not told"
	}
	return fmt.Sprintf("%d of %d", open, len(engines))
}

func openBreakers(page string, engines []*sim.Engine) (open, known int) {
	for line := range strings.Lines(page) {
		series, value, _ := strings.Cut(strings.TrimSpace(line), "} ")
		for _, e := range engines {
			if strings.Contains(series, "cb_state{") && strings.Contains(series, `"`+e.URL()+`"`) {
				known++
				if value == "1" {
					open++
				}
			}
		}
	}
	return open, known
}

func scrape(ctx context.Context, url string) (string, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, http.NoBody)
	if err != nil {
		return "", err
	}
	client := newClient()
	defer client.CloseIdleConnections()
	resp, err := client.Do(req)
	if err != nil {
		return "", err
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	return string(text), err
}

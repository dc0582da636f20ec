package main

import (
	"net/http"
	"net/http/httputil"
	"net/url"
	"sync/atomic"
)

// newOneLeg returns the baseline that knows nothing of hand-offs: a reverse
// proxy as Go has it, in front of decode engines alone.
func newOneLeg(decodes []string) http.Handler {
	var turn atomic.Uint64
	proxy := &httputil.ReverseProxy{
		Transport:     newTransport(),
		FlushInterval: -1,
		Rewrite: func(r *httputil.ProxyRequest) {
			r.SetURL(&url.URL{Scheme: "http", Host: decodes[turn.Add(1)%uint64(len(decodes))]})
		},
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		// Else the server closes the request's body when the answer begins. The
		// transport, which may not have looked for the body's end by then, takes
		// that for a failure and breaks the answer off.
		_ = http.NewResponseController(w).EnableFullDuplex() // HTTP/1 can
		proxy.ServeHTTP(w, r)
	})
}

// newTransport returns what both baselines send legs with.
func newTransport() *http.Transport {
	return &http.Transport{MaxIdleConns: 4096, MaxIdleConnsPerHost: 1024, DisableCompression: true}
}

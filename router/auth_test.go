package router

import (
	"slices"
	"strings"
	"testing"

	"pdrouter/keys"
	"pdrouter/workers"
)

// TestKeys is about the keys that clients must send.
func TestKeys(t *testing.T) {
	tests := []struct {
		name, header string
		want         int
	}{
		{"none", "X: y", 401},
		{"the first", "Authorization: Bearer key-1", 200},
		{"the second", "Authorization: Bearer key-2", 200},
		{"in lower case", "authorization: bearer key-1", 200},
		{"with space around", "Authorization: Bearer   key-1 ", 200},
		{"a wrong one", "Authorization: Bearer key-3", 401},
		{"the key in capitals", "Authorization: Bearer KEY-1", 401},
		{"the beginning of one", "Authorization: Bearer key-", 401},
		{"one and more", "Authorization: Bearer key-1key-2", 401},
		{"two at once", "Authorization: Bearer key-1 key-2", 401},
		{"an empty one", "Authorization: Bearer ", 401},
		{"the scheme alone", "Authorization: Bearer", 401},
		{"no scheme", "Authorization: key-1", 401},
		{"another scheme", "Authorization: Basic key-1", 401},
		{"a wrong header", "X-Api-Key: key-1", 401},
		{"a long one", "Authorization: Bearer " + strings.Repeat("k", 100_000), 401},
	}
	f := newServingFleet(t, func(c *Config) { c.APIKeys = keys.Of("key-1", "key-2") })
	served := 0
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got := f.postWith(t, tt.header)

			if tt.want == 401 {
				wantError(t, got, 401, "invalid_api_key")
				if got.header.Get("Www-Authenticate") != "Bearer" {
					t.Error("no Www-Authenticate")
				}
			} else if served++; got.status != tt.want {
				t.Errorf("answer = %d %s, want %d", got.status, got.body, tt.want)
			}
		})
	}
	for _, e := range []*engine{f.prefill, f.decode} {
		if n := len(e.got()); n != served {
			t.Errorf("legs = %d, want %d", n, served)
		}
		for _, l := range e.got() {
			if auth, ok := l.header["Authorization"]; ok {
				t.Errorf("an engine is shown the router's key: %q", auth)
			}
		}
	}
	for _, path := range []string{"/liveness", "/health", "/readiness", "/v1/models"} {
		if got := f.request(t, "GET", path); got.status != 200 {
			t.Errorf("GET %s without a key = %d, want 200", path, got.status)
		}
	}
	for _, path := range []string{"/v1/completions", "/generate", "/v1/responses", "/v1/embeddings"} {
		if got := f.post(t, path, "{}"); got.status != 401 {
			t.Errorf("POST %s without a key = %d, want 401", path, got.status)
		}
	}
}

// TestRefusedBeforeReading is about who pays for the body of a stranger.
func TestRefusedBeforeReading(t *testing.T) {
	f := newServingFleet(t, func(c *Config) { c.APIKeys = keys.Of("key") })
	conn := f.connect(t)
	conn.Write([]byte("POST /v1/chat/completions HTTP/1.1\r\nHost: h\r\nExpect: 100-continue\r\nContent-Length: 200000000\r\n\r\n"))

	got, closed := readAnswer(t, conn)

	wantError(t, got, 401, "invalid_api_key")
	if !closed || f.handler.BufferedBytes() != 0 {
		t.Errorf("closed = %t with %d bytes held, want it closed with none", closed, f.handler.BufferedBytes())
	}
}

// TestKeysUp is about what goes up as Authorization, to which engine.
func TestKeysUp(t *testing.T) {
	tests := []struct {
		name            string
		own             []string // the router's keys
		prefill, decode string   // the workers' keys
		wantPrefill     string
		wantDecode      string
	}{
		{"nobody has keys", nil, "", "", "Bearer client", "Bearer client"},
		{"the workers have keys", nil, "p", "d", "Bearer p", "Bearer d"},
		{"one worker has a key", nil, "", "d", "Bearer client", "Bearer d"},
		{"the router has keys", []string{"client"}, "", "", "", ""},
		{"all have keys", []string{"client"}, "p", "d", "Bearer p", "Bearer d"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			f := newServingFleet(t, func(c *Config) { c.APIKeys = keys.Of(tt.own...) })
			for _, s := range f.registry.Statuses() {
				s.Worker.APIKey = map[workers.Role]string{workers.Prefill: tt.prefill, workers.Decode: tt.decode}[s.Worker.Role]
			}

			got := f.postWith(t, "Authorization: Bearer client")

			if got.status != 200 {
				t.Fatalf("answer = %d %s, want 200", got.status, got.body)
			}
			have := []string{f.prefill.got()[0].header.Get("Authorization"), f.decode.got()[0].header.Get("Authorization")}
			if want := []string{tt.wantPrefill, tt.wantDecode}; !slices.Equal(have, want) {
				t.Errorf("Authorization = %q, want %q", have, want)
			}
		})
	}
}

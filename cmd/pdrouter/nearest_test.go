package main

import "testing"

func TestNearest(t *testing.T) {
	known := []string{"port", "host", "prefill", "prefill-policy", "prometheus-port", "policy"}
	for name, want := range map[string]string{
		"prot":          "port", // two neighbours swapped
		"hots":          "host",
		"prefil":        "prefill",
		"prefil-policy": "prefill-policy",
		"prometeus-prt": "prometheus-port",
		"polcy":         "policy",
		"":              "port",
	} {
		if got := nearest(name, known); got != want {
			t.Errorf("nearest(%q) = %q, want %q", name, got, want)
		}
	}
	if got := nearest("x", nil); got != "" {
		t.Errorf("nearest of nothing = %q, want nothing", got)
	}
}

func TestTypos(t *testing.T) {
	tests := []struct {
		name, a, b string
		want       int
	}{
		{"the same word has none", "port", "port", 0},
		{"a swap is one", "prot", "port", 1},
		{"a letter too few is one", "prt", "port", 1},
		{"a letter too many is one", "portt", "port", 1},
		{"another letter is one", "pork", "port", 1},
		{"nothing against a word is its length", "", "port", 4},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if got := typos(tt.a, tt.b); got != tt.want {
				t.Errorf("typos(%q, %q) = %d, want %d", tt.a, tt.b, got, tt.want)
			}
			if got := typos(tt.b, tt.a); got != tt.want {
				t.Errorf("typos(%q, %q) = %d, want %d", tt.b, tt.a, got, tt.want)
			}
		})
	}
}

package main

import (
	"testing"
	"time"

	"pdrouter/keys"
)

func TestSeconds(t *testing.T) {
	tests := []struct {
		text string
		want time.Duration
		ok   bool
	}{
		{"0", 0, true},
		{"30", 30 * time.Second, true},
		{"0.5", 500 * time.Millisecond, true},
		{"1e1", 10 * time.Second, true},
		{"0.000000001", time.Nanosecond, true},
		{"-1", 0, false},
		{"30s", 0, false},
		{"", 0, false},
		{"NaN", 0, false},
		{"Inf", 0, false},
		{"1e300", 0, false},
		{"9223372036.854775807", 0, false},
	}
	for _, tt := range tests {
		got, err := parseSeconds(tt.text)
		if got != tt.want || (err == nil) != tt.ok {
			t.Errorf("parseSeconds(%q) = %v, %v; want %v, ok %v", tt.text, got, err, tt.want, tt.ok)
		}
	}
}

func TestAListReplacesItsDefaultOnce(t *testing.T) {
	names := []string{"a", "b"}
	l := newTexts(&names, "text")
	for _, text := range []string{"x", "y"} {
		if err := l.Set(text); err != nil {
			t.Fatal(err)
		}
	}
	if got := l.String(); got != "x y" {
		t.Errorf("after Set(x), Set(y) the list is %q, want %q", got, "x y")
	}
}

func TestKeysAreNeverThreeStars(t *testing.T) {
	for _, text := range []string{redacted, "with blank", "tab\t", "ümlaut"} {
		if key, err := parseSecret(text); err == nil {
			t.Errorf("parseSecret(%q) = %q, want an error", text, key)
		}
	}
}

func TestATenantsKeyIsAKey(t *testing.T) {
	var set keys.Set
	v := newTenantKeys(&set)
	if err := v.Set("team-a:s3cret:x"); err != nil || set[0] != keys.New("team-a", "s3cret:x") {
		t.Errorf("Set(team-a:s3cret:x) keeps %v, %v; want s3cret:x of team-a", set, err)
	}
	for _, text := range []string{"s3cret", ":s3cret", "team-a:", "team-a:***"} {
		if v.Set(text) == nil {
			t.Errorf("Set(%q) = nil, want an error", text)
		}
	}
}

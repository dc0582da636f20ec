package main

import (
	"strings"
	"testing"
	"time"

	"pdrouter/policy"
)

const pairArgs = "--prefill http://127.0.0.1:1 --decode http://127.0.0.1:2 "

// warned returns the warnings that a command line gets, by setting.
func warned(t *testing.T, args string) map[string]string {
	t.Helper()
	flags, in := serveFlags()
	words, err := normalise(flags, strings.Fields(args))
	if err != nil {
		t.Fatal(err)
	}
	if err := flags.Parse(words); err != nil {
		t.Fatal(err)
	}
	if _, err := in.load(); err != nil {
		t.Fatal(err)
	}
	got := map[string]string{}
	for _, w := range in.warnings {
		got[w.Setting] += w.Text
	}
	return got
}

func TestEachPolicyIsTakenForEachLeg(t *testing.T) {
	for _, name := range policy.Names() {
		for _, flag := range []string{"--policy ", "--prefill-policy ", "--decode-policy "} {
			args := pairArgs + flag + name
			if got := warned(t, args); len(got) != 0 {
				t.Errorf("%s%s is warned of: %v", flag, name, got)
			}
			cfg, _ := check(t, strings.Fields(args)...)
			prefill, decode := cfg.legPolicies()
			if _, ok := policy.New(prefill, decode, cfg.Choosing); !ok {
				t.Errorf("%s%s makes no policy of %s and %s", flag, name, prefill, decode)
			}
			if (prefill == name) == (flag == "--decode-policy " && name != DefaultConfig().Policy) ||
				(decode == name) == (flag == "--prefill-policy " && name != DefaultConfig().Policy) {
				t.Errorf("%s%s is %s for prefill and %s for decode", flag, name, prefill, decode)
			}
		}
	}
}

func TestPolicySettings(t *testing.T) {
	cfg, _ := check(t, strings.Fields(pairArgs+
		"--max-index-blocks 7 --prefill-hold 1m30s --prefix-hash-load-factor 1.5 --prefix-hash-balance-abs-threshold 3 "+
		"--least-load-kv-pressure-weight 0.25 --least-load-default-throughput 100 --least-load-mean-prefill-tokens 50 --least-load-max-waiting-requests 4 "+
		"--power-of-two-load-metric requests --bucket-adjust-interval-secs 2.5 --balance-abs-threshold 9 --spill-rel-threshold 2 "+
		"--sticky-key-idle-secs 60 --assignment-mode min_group --sticky-sessions")...)
	want := policy.DefaultConfig()
	want.MaxBlocks, want.Hold = 7, 90*time.Second
	want.LoadFactor, want.BalanceBelow = 1.5, 3
	want.KVWeight, want.Throughput, want.PromptTokens, want.MaxWaiting = 0.25, 100, 50, 4
	want.Metric, want.AdjustBuckets, want.BalanceAbs, want.BalanceRel = "requests", 2500*time.Millisecond, 9, 2
	want.MaxIdle, want.Assignment, want.Override = time.Minute, "min_group", true
	if cfg.Choosing != want {
		t.Errorf("the settings make\n%+v, want\n%+v", cfg.Choosing, want)
	}
}

// What no policy in use reads is said, and what one reads is not.
func TestSettingsOfOtherPoliciesAreWarnedOf(t *testing.T) {
	for _, tt := range []struct{ args, setting, want string }{
		{"--policy cache_aware --balance-abs-threshold 1", "balance-abs-threshold", "it is for bucket only; in use: cache_aware"},
		{"--policy bucket --balance-abs-threshold 1", "balance-abs-threshold", ""},
		{"--policy round_robin --prefill-policy bucket --balance-abs-threshold 1", "balance-abs-threshold", ""},
		{"--policy round_robin --decode-policy random --prefill-hold 1s", "prefill-hold", "it is for cache_aware only; in use: round_robin and random"},
		{"--policy cache_aware --max-idle-secs 60", "max-idle-secs", "it is for manual only"},
		{"--policy cache_aware --max-idle-secs 60 --routing-key-override", "max-idle-secs", ""},
		{"--policy power_of_two --least-load-kv-pressure-weight 1", "least-load-kv-pressure-weight", ""},
		{"--policy cache_aware --cache-threshold 0.5", "cache-threshold", "there is nothing to tune"},
		{"--policy bucket --cache-ttl-secs 5", "cache-ttl-secs", "time alone evicts nothing"},
		{"--policy prefix_hash --prefix-token-count 5", "prefix-token-count", "first 4 KiB"},
	} {
		if got := warned(t, pairArgs+tt.args)[tt.setting]; (got == "") != (tt.want == "") || !strings.Contains(got, tt.want) {
			t.Errorf("%s is warned of with %q, want %q", tt.args, got, tt.want)
		}
	}
}

func TestHoldIsATimeOrOff(t *testing.T) {
	for text, want := range map[string]string{"off": "off", "0s": "off", "0": "off", "4s": "4s", "1500ms": "1.5s", "4": "", "on": "", "-1s": ""} {
		hold := time.Hour
		v := newHold(&hold)
		if err := v.Set(text); (err != nil) != (want == "") || err == nil && v.String() != want {
			t.Errorf("Set(%q) = %v, and then %s, want %q", text, err, v, want)
		}
	}
}

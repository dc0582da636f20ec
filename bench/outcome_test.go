package bench

import (
	"encoding/json"
	"math"
	"testing"
	"time"
)

func TestRowOf(t *testing.T) {
	row := RowOf("p", []Ended{
		{TTFT: time.Second, Blocks: 4, Found: 1, Seat: 0, Work: 3 * time.Second},
		{TTFT: 3 * time.Second, Blocks: 4, Found: 2, Seat: 0, Work: 3 * time.Second},
		{TTFT: 2 * time.Second, Blocks: 2, Found: 0, Seat: 1, Work: 2 * time.Second},
	}, 4)
	want := Row{Policy: "p", HitRatio: 0.3, TTFTMean: 2, TTFTP50: 2, TTFTP90: 3, TTFTP99: 3, TTFTMax: 3, Imbalance: 3, Requests: 3}
	if row != want {
		t.Errorf("RowOf = %+v, want %+v: two workers of four had nothing", row, want)
	}
}

// TestRowIsPrinted has the keys that scripts read, in their order; what is not
// known is null.
func TestRowIsPrinted(t *testing.T) {
	for _, tt := range []struct {
		name string
		row  Row
		want string
	}{
		{
			"a row",
			Row{"p", 0.5, 1, 2, 3, 4, 5, 1.25, 7, 0},
			`{"policy":"p","hit_ratio":0.5,"ttft_mean_s":1,"ttft_p50_s":2,"ttft_p90_s":3,"ttft_p99_s":4,"imbalance":1.25,"requests":7,"ttft_max_s":5,"failed":0}`,
		},
		{
			"one of nothing", RowOf("p", nil, 8),
			`{"policy":"p","hit_ratio":null,"ttft_mean_s":null,"ttft_p50_s":null,"ttft_p90_s":null,"ttft_p99_s":null,"imbalance":null,"requests":0,"ttft_max_s":null,"failed":0}`,
		},
	} {
		got, err := json.Marshal(tt.row)
		if err != nil || string(got) != tt.want {
			t.Errorf("%s: %s, %v, want %s", tt.name, got, err, tt.want)
		}
	}
}

func TestTotalsRow(t *testing.T) {
	var tally Tally
	for i, res := range []Result{
		{Text: "x", TTFT: time.Second, PromptTokens: 100, CachedTokens: 60},
		{Text: "x", TTFT: 3 * time.Second, PromptTokens: 100, CachedTokens: 0},
		{Text: "x", TTFT: 2 * time.Second, PromptTokens: 1000, CachedTokens: -1},
		{Text: "x", TTFT: 2 * time.Second, PromptTokens: -1, CachedTokens: -1},
		{PromptTokens: 100, CachedTokens: 100}, // an answer without a token has no time of the first
		{Err: errWrong, PromptTokens: 100, CachedTokens: 100},
	} {
		tally.sent()
		tally.ended(i, res)
	}
	n := tally.Totals()
	row := n.Row("live")
	if n.Told != 3 || math.Abs(row.HitRatio-160.0/300) > 1e-9 || row.TTFTMean != 2 || row.Requests != 6 || row.Failed != 1 {
		t.Errorf("%+v of %d that told, want a hit ratio of 160/300 and a mean of 2 s", row, n.Told)
	}
	if !math.IsNaN(row.Imbalance) {
		t.Errorf("imbalance = %v, which a client does not see", row.Imbalance)
	}
	whole := Totals{Told: 2, Whole: 2, ToldTokens: 200, CachedTokens: 199}
	if row := whole.Row(""); !math.IsNaN(row.HitRatio) {
		t.Errorf("hit ratio = %v of answers that count what was handed over", row.HitRatio)
	}
	if row := new(Totals).Row(""); !math.IsNaN(row.HitRatio) || !math.IsNaN(row.TTFTMean) || !math.IsNaN(row.TTFTMax) {
		t.Errorf("the row of nothing is %+v, want nothing known", row)
	}
}

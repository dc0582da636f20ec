package bench

import (
	"encoding/json"
	"math"
	"slices"
	"time"
)

// A Row is what came of a replay in figures, as they are printed. What is not
// known is NaN.
type Row struct {
	Policy   string
	HitRatio float64 // blocks found cached / blocks; of Totals: tokens

	TTFTMean, TTFTP50, TTFTP90, TTFTP99, TTFTMax float64 // in seconds

	Imbalance float64 // work of the busiest worker / mean
	Requests  int     // that ended
	Failed    int     // of them, those without a whole answer; TTFT are of the others
}

// MarshalJSON has null for what is not known.
func (r Row) MarshalJSON() ([]byte, error) {
	known := func(f float64) *float64 {
		if math.IsNaN(f) {
			return nil
		}
		return &f
	}
	return json.Marshal(struct {
		Policy    string   `json:"policy"`
		HitRatio  *float64 `json:"hit_ratio"`
		TTFTMean  *float64 `json:"ttft_mean_s"`
		TTFTP50   *float64 `json:"ttft_p50_s"`
		TTFTP90   *float64 `json:"ttft_p90_s"`
		TTFTP99   *float64 `json:"ttft_p99_s"`
		Imbalance *float64 `json:"imbalance"`
		Requests  int      `json:"requests"`
		TTFTMax   *float64 `json:"ttft_max_s"`
		Failed    int      `json:"failed"`
	}{
		r.Policy, known(r.HitRatio), known(r.TTFTMean), known(r.TTFTP50), known(r.TTFTP90), known(r.TTFTP99),
		known(r.Imbalance), r.Requests, known(r.TTFTMax), r.Failed,
	})
}

// unknown returns a row of which only the name is known.
func unknown(name string) Row {
	nan := math.NaN()
	return Row{
		Policy: name, HitRatio: nan, Imbalance: nan,
		TTFTMean: nan, TTFTP50: nan, TTFTP90: nan, TTFTP99: nan, TTFTMax: nan,
	}
}

// RowOf returns what came of some requests in figures. They were shared by so
// many workers.
func RowOf(name string, ends []Ended, workers int) Row {
	if len(ends) == 0 {
		return unknown(name)
	}
	var blocks, found int
	var sum time.Duration
	work := map[int]time.Duration{}
	ttfts := make([]time.Duration, len(ends))
	for i, e := range ends {
		ttfts[i] = e.TTFT
		sum += e.TTFT
		blocks += e.Blocks
		found += e.Found
		work[e.Seat] += e.Work
	}
	slices.Sort(ttfts)
	at := func(q float64) float64 { return ttfts[int(q*float64(len(ttfts)-1)+0.5)].Seconds() }
	return Row{
		Policy: name, Requests: len(ends), Imbalance: imbalance(work, workers),
		HitRatio: float64(found) / float64(max(blocks, 1)), TTFTMean: sum.Seconds() / float64(len(ends)),
		TTFTP50: at(0.5), TTFTP90: at(0.9), TTFTP99: at(0.99), TTFTMax: at(1),
	}
}

// imbalance returns the busiest worker's work over the mean. One without work
// counts, too.
func imbalance(work map[int]time.Duration, workers int) float64 {
	var sum, busiest time.Duration
	for _, w := range work {
		sum += w
		busiest = max(busiest, w)
	}
	return float64(busiest) * float64(workers) / float64(max(sum, 1))
}

// Mean returns the means of rows of one policy, such as those of several seeds.
func Mean(rows []Row) Row {
	var m Row
	n := float64(len(rows))
	for _, r := range rows {
		m.Policy, m.Requests, m.Failed = r.Policy, r.Requests, r.Failed
		m.HitRatio += r.HitRatio / n
		m.TTFTMean += r.TTFTMean / n
		m.TTFTP50 += r.TTFTP50 / n
		m.TTFTP90 += r.TTFTP90 / n
		m.TTFTP99 += r.TTFTP99 / n
		m.TTFTMax += r.TTFTMax / n
		m.Imbalance += r.Imbalance / n
	}
	return m
}

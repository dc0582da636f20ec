package bench

import (
	"slices"
	"time"
)

// A Row is what came of a replay in figures, as they are printed.
type Row struct {
	Policy    string  `json:"policy"`
	HitRatio  float64 `json:"hit_ratio"` // blocks found cached / blocks
	TTFTMean  float64 `json:"ttft_mean_s"`
	TTFTP50   float64 `json:"ttft_p50_s"`
	TTFTP90   float64 `json:"ttft_p90_s"`
	TTFTP99   float64 `json:"ttft_p99_s"`
	TTFTMax   float64 `json:"ttft_max_s"`
	Imbalance float64 `json:"imbalance"` // work of the busiest worker / mean
	Requests  int     `json:"requests"`
}

// RowOf returns what came of some requests in figures.
func RowOf(name string, ends []Ended) Row {
	row := Row{Policy: name, Requests: len(ends)}
	if len(ends) == 0 {
		return row
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
	row.Imbalance = imbalance(work)
	slices.Sort(ttfts)
	at := func(q float64) float64 { return ttfts[int(q*float64(len(ttfts)-1)+0.5)].Seconds() }
	row.HitRatio = float64(found) / float64(max(blocks, 1))
	row.TTFTMean = sum.Seconds() / float64(len(ends))
	row.TTFTP50, row.TTFTP90, row.TTFTP99, row.TTFTMax = at(0.5), at(0.9), at(0.99), at(1)
	return row
}

// imbalance returns the busiest worker's work over the mean.
func imbalance(work map[int]time.Duration) float64 {
	var sum, busiest time.Duration
	for _, w := range work {
		sum += w
		busiest = max(busiest, w)
	}
	return float64(busiest) * float64(len(work)) / float64(max(sum, 1))
}

// Mean returns the means of rows of one policy, such as those of several seeds.
func Mean(rows []Row) Row {
	var m Row
	n := float64(len(rows))
	for _, r := range rows {
		m.Policy, m.Requests = r.Policy, r.Requests
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

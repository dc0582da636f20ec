package workers

import (
	"math"
	"testing"
	"time"
)

func TestPaceBetweenTwoReports(t *testing.T) {
	nan := math.NaN()
	at := func(seconds int, generated, transfers, took, bytes float64) Report {
		r := unknown()
		r.At = time.Unix(int64(1000+seconds), 0)
		r.GeneratedTokens, r.Transfers, r.TransferSeconds, r.TransferBytes = generated, transfers, took, bytes
		return r
	}
	for name, tt := range map[string]struct {
		before, now Report
		want        Pace
	}{
		"an engine that worked":                {at(0, 100, 2, 1, 1000), at(10, 600, 6, 2, 9000), Pace{50, 0.25, 8000}},
		"an engine that did nothing":           {at(0, 100, 2, 1, 1000), at(10, 100, 2, 1, 1000), Pace{0, nan, nan}},
		"an engine that was started again":     {at(0, 100, 2, 1, 1000), at(10, 5, 1, 0.5, 10), Pace{nan, nan, nan}},
		"an engine that does not tell":         {at(0, nan, nan, nan, nan), at(10, nan, nan, nan, nan), Pace{nan, nan, nan}},
		"the first report":                     {Report{}, at(10, 100, 2, 1, 1000), Pace{nan, nan, nan}},
		"two reports of one moment":            {at(0, 100, 2, 1, 1000), at(0, 200, 4, 2, 2000), Pace{nan, 0.5, 1000}},
		"hand-offs that took no time":          {at(0, 0, 2, 1, 0), at(10, 0, 4, 1, 64), Pace{0, 0, nan}},
		"hand-offs whose bytes nobody counted": {at(0, 0, 2, 1, nan), at(10, 0, 4, 3, nan), Pace{0, 1, nan}},
	} {
		got := paceOf(&tt.before, &tt.now)
		for _, f := range [...]struct {
			field     string
			got, want float64
		}{
			{"Generating", got.Generating, tt.want.Generating},
			{"HandOff", got.HandOff, tt.want.HandOff},
			{"Transferred", got.Transferred, tt.want.Transferred},
		} {
			if f.got != f.want && !(math.IsNaN(f.got) && math.IsNaN(f.want)) {
				t.Errorf("%s: %s = %v, want %v", name, f.field, f.got, f.want)
			}
		}
	}
}

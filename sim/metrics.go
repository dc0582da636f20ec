package sim

import (
	"math"
	"strconv"
	"strings"
	"time"
)

// exposition returns the page of /metrics: what routers may want to know of
// all that the real engines tell, under the same names and labels.
func (e *Engine) exposition() []byte {
	p := &page{}
	if e.cfg.Dialect == SGLang {
		e.sglangMetrics(p)
	} else {
		e.vllmMetrics(p)
	}
	return p.b
}

// cpuSeconds stands for the CPU time of the engine's processes: what matters
// of it is that it grows, and starts again with the engine.
func (e *Engine) cpuSeconds() float64 { return time.Since(e.started).Seconds() }

// A page is a text exposition in the making.
type page struct {
	b      []byte
	labels string // common to all samples of the families that follow
}

// family begins a family.
func (p *page) family(name, kind string) {
	p.b = append(p.b, "# TYPE "+name+" "+kind+"\n"...)
}

// sample adds a sample. labels come with the common ones, all sorted.
func (p *page) sample(name, labels string, v float64) {
	p.b = append(p.b, name...)
	if all := joinLabels(p.labels, labels); all != "" {
		p.b = append(p.b, '{')
		p.b = append(p.b, all...)
		p.b = append(p.b, '}')
	}
	p.b = append(p.b, ' ')
	p.b = append(p.b, pythonFloat(v)...)
	p.b = append(p.b, '\n')
}

// gauge adds a family of one sample.
func (p *page) gauge(name string, v float64) {
	p.family(name, "gauge")
	p.sample(name, "", v)
}

// counter adds a family of one sample.
func (p *page) counter(name string, v uint64) {
	p.family(name, "counter")
	p.sample(name, "", float64(v))
}

// histogram adds a histogram, or two: that of requests which do not stream and
// that of those which do.
func (p *page) histogram(name string, hs ...*histogram) {
	p.family(name, "histogram")
	for i, h := range hs {
		labels := ""
		if len(hs) > 1 {
			labels = `is_streaming="` + strconv.FormatBool(i == 1) + `"`
		}
		p.histogramSamples(name, labels, h)
	}
}

func (p *page) histogramSamples(name, labels string, h *histogram) {
	var count uint64
	for i := range h.buckets {
		le := "+Inf"
		if i < len(h.bounds) {
			le = pythonFloat(h.bounds[i])
		}
		count += h.buckets[i].Load()
		p.sample(name+"_bucket", joinLabels(labels, `le="`+le+`"`), float64(count))
	}
	p.sample(name+"_count", labels, float64(count))
	p.sample(name+"_sum", labels, h.total())
}

// joinLabels puts two lists of labels into one, sorted by name, as the Python
// client does.
func joinLabels(a, b string) string {
	if a == "" || b == "" {
		return a + b
	}
	var out []string
	left, right := splitLabels(a), splitLabels(b)
	for len(left) > 0 && len(right) > 0 {
		if left[0] < right[0] {
			out, left = append(out, left[0]), left[1:]
		} else {
			out, right = append(out, right[0]), right[1:]
		}
	}
	out = append(append(out, left...), right...)
	return strings.Join(out, ",")
}

// splitLabels splits at the commas that follow a quote.
func splitLabels(s string) []string {
	parts := strings.Split(s, `",`)
	for i := range parts[:len(parts)-1] {
		parts[i] += `"`
	}
	return parts
}

// pythonFloat writes a number as Python's client does.
func pythonFloat(v float64) string {
	switch {
	case math.IsNaN(v):
		return "NaN"
	case v == math.Trunc(v) && math.Abs(v) < 1e6:
		return strconv.FormatFloat(v, 'f', 1, 64)
	case math.Abs(v) >= 1e6:
		return strconv.FormatFloat(v, 'e', -1, 64)
	}
	return strconv.FormatFloat(v, 'f', -1, 64)
}

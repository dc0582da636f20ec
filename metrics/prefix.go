package metrics

import "github.com/prometheus/client_golang/prometheus"

// A prefix counts how prompts found workers that hold their beginning, and
// whether these did.
type prefix struct {
	branches map[Branch]prometheus.Counter
	match    prometheus.Histogram
	prompt   *prometheus.CounterVec
	hit      *prometheus.CounterVec
}

func newPrefix(reg prometheus.Registerer) prefix {
	branches := counters("smg_cache_aware_policy_branch_total",
		"Choices of cache_aware: tree_match (no worker was believed to hold more of the prompt), spill (another one was, and had too much to do), "+
			"expected_wait_fallback (nobody was believed to hold any of it).", "branch")
	p := prefix{
		branches: map[Branch]prometheus.Counter{},
		match: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: "smg_cache_aware_match_ratio", Help: "The part of a prompt that the worker which holds most of it is believed to hold.",
			Buckets: []float64{0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1},
		}),
		prompt: counters("pdrouter_prefill_prompt_tokens_total",
			"Tokens of the prompts of prefill legs of which that kind of figure is known, by worker.", "worker", "kind"),
		hit: counters("pdrouter_prefill_hit_tokens_total",
			"Of pdrouter_prefill_prompt_tokens_total, the tokens that the worker was believed to hold when it was chosen (predicted), or that its engine says it had cached (observed).", "worker", "kind"),
	}
	for _, b := range []Branch{TreeMatch, Spill, ExpectedWait} {
		p.branches[b] = branches.WithLabelValues(string(b))
	}
	reg.MustRegister(branches, p.match, p.prompt, p.hit)
	return p
}

// A Branch is why a choice of cache_aware fell as it did, in smg's words.
type Branch string

// The branches.
const (
	TreeMatch    Branch = "tree_match"             // nobody else holds more of the prompt
	Spill        Branch = "spill"                  // somebody does, and has too much to do
	ExpectedWait Branch = "expected_wait_fallback" // nobody holds any of it
)

// Chosen counts a choice of cache_aware for a prompt of so many blocks, of which
// the chosen worker was believed to hold some, and the one that holds most of
// all that could be chosen so many. A prompt shorter than a block has none.
func (m *Metrics) Chosen(blocks, held, most int) {
	b := TreeMatch
	switch {
	case most == 0:
		b = ExpectedWait
	case held < most:
		b = Spill
	}
	m.prefix.branches[b].Inc()
	if blocks > 0 {
		m.prefix.match.Observe(float64(most) / float64(blocks))
	}
}

// PrefillFound counts what a prefill leg found in its worker's cache: of so many
// tokens of prompt, those that were predicted and those that the engine says. A
// figure below 0 is not known; it is not counted, nor is the prompt beside it.
func (m *Metrics) PrefillFound(worker string, prompt, predicted, observed int64) {
	if prompt < 0 {
		return
	}
	for _, figure := range [...]struct {
		kind string
		hit  int64
	}{{"predicted", predicted}, {"observed", observed}} {
		if figure.hit >= 0 {
			m.prefix.prompt.WithLabelValues(worker, figure.kind).Add(float64(prompt))
			m.prefix.hit.WithLabelValues(worker, figure.kind).Add(float64(figure.hit))
		}
	}
}

// Forget drops the series of a worker that is gone.
func (m *Metrics) Forget(worker string) {
	for _, vec := range []*prometheus.CounterVec{m.legs, m.sent, m.prefix.prompt, m.prefix.hit} {
		vec.DeletePartialMatch(prometheus.Labels{"worker": worker})
	}
}

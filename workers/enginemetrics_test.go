package workers

import (
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"
)

// update makes the golden tests write what they would compare.
var update = flag.Bool("update", false, "write golden files")

// TestEngineMetricsPage compares docs/engine-metrics.md with the tables of the
// readers. After a change of them: go test ./workers -run EngineMetrics -update.
func TestEngineMetricsPage(t *testing.T) {
	const path = "../docs/engine-metrics.md"
	want := engineMetricsPage()
	if *update {
		if err := os.WriteFile(path, []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	got, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if string(got) != want {
		t.Errorf("%s does not show the tables of the readers; run this test with -update and look at the change", path)
	}
}

// engineMetricsPage is docs/engine-metrics.md.
func engineMetricsPage() string {
	var b strings.Builder
	b.WriteString(`# What engines tell of themselves

pdrouter asks each engine how it is once per ` + "`--load-monitor-interval`" + `, one question at a time, and maps what engines of either kind and of several versions say to one set of numbers. This page is made from the readers' tables by a test.

- Of several names the newest that an engine has is taken; "or" stands between them. What stands with a + is added up, as are all samples of a name, whatever their other labels.
- An engine of several data-parallel ranks is told as one: the sum of its ranks (labels ` + "`dp_rank`, `engine`" + `), unless the table says otherwise. Processes that compute one rank's requests together (` + "`tp_rank`, `pp_rank`, `moe_ep_rank`" + `) each tell the same; the largest counts. Samples with a ` + "`priority`" + ` are parts of the one without.
- What an engine does not tell, tells as NaN, or as less than zero, is not known. It is never 0.
- SGLang shows some counters (retracted requests, failed hand-offs) from their first event on.

## SGLang

` + "`/v1/loads`" + ` tells the moment, where ` + "`/metrics`" + ` lags by seconds, so what is in both is taken from there. Start SGLang with ` + "`--enable-metrics`" + `; without it only the first table is known, and BlockSize and MaxContext, from ` + "`/server_info`" + `.

### /v1/loads, summed over its elements

| number | keys |
|---|---|
`)
	for _, r := range loadReadings() {
		fmt.Fprintf(&b, "| %s | `%s` |\n", r.field, strings.ReplaceAll(r.keys, " + ", "` + `"))
	}
	b.WriteString("\n### /metrics\n\n")
	writeReadings(&b, sglangReadings())
	b.WriteString(`
SGLang does not tell when its process started: ProcessSeconds falls when it starts again. It counts hand-offs on the side of prefill, and not at all how many tokens came over. PromptTokens counts requests that have ended, and so does the older name of GeneratedTokens; the newer one moves every 40 steps (` + "`--decode-log-interval`" + `), ComputedLocally with every batch of prompts, KVUsed at once.

## vLLM

All is in ` + "`/metrics`" + `. It is empty of ` + "`vllm:`" + ` with ` + "`--disable-log-stats`" + `.

`)
	writeReadings(&b, vllmReadings())
	b.WriteString(`
Capacity, what is used of it and the longest context are worked out from the shares, where that is all that is told; one block, which vLLM uses for nothing and does not count as used, is taken off the capacity. How many tokens of the pool are only cached vLLM does not tell; they are not counted as used. Names with ` + "`gpu_`" + ` are older; the first engines that had them counted blocks, not tokens, in the prefix cache. Hand-offs are counted where they are fetched, by decode; those that expired, by prefill. ` + "`external_prefix_cache_hits`" + ` is not looked at: it also rises when a hand-off fails.
`)
	return b.String()
}

func writeReadings(b *strings.Builder, table []reading) {
	fmt.Fprintf(b, "| number | from | ranks |\n|---|---|---|\n")
	for _, r := range table {
		var from []string
		for _, s := range r.from {
			from = append(from, s.String())
		}
		ranks := map[reduction]string{sum: "sum", mean: "mean", largest: "largest"}[r.from[0].over]
		fmt.Fprintf(b, "| %s | %s | %s |\n", r.field, strings.Join(from, " or "), ranks)
	}
}

// String returns a source as it stands on the page.
func (s source) String() string {
	var names []string
	for _, n := range s.names {
		switch {
		case s.label != "":
			n += fmt.Sprintf(`{%s="%s"}`, s.label, strings.Join(s.values, `" or "`))
		case s.number != "":
			n += fmt.Sprintf(`{%s="..."}`, s.number)
		}
		names = append(names, "`"+n+"`")
	}
	text := strings.Join(names, " + ")
	if s.times != 0 {
		text += fmt.Sprintf(" × %v", s.times)
	}
	return text
}

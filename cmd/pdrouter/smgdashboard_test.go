package main

import (
	"regexp"
	"slices"
	"strings"
	"testing"
)

// smgAsked are the families that the published queries of smg ask for, with the
// labels that they name: of its page on monitoring (panels and alerts), of its
// reference of metrics, and of the dashboard in its Helm chart. Looked up in
// lightseekorg/smg: docs/getting-started/monitoring.md, docs/reference/metrics.md,
// deploy/helm/smg/templates/grafana-dashboard.yaml.
const smgAsked = `
smg_http_requests_total path
smg_http_request_duration_seconds path
smg_http_responses_total path status_code
smg_http_rate_limit_total result
smg_router_requests_total model streaming
smg_router_request_errors_total error_type
smg_router_ttft_seconds model
smg_router_tpot_seconds
smg_router_tokens_total model token_type
smg_worker_health worker
smg_worker_requests_active worker
smg_worker_cb_state worker
smg_router_stage_duration_seconds stage
smg_mcp_tool_calls_total tool_name result
smg_mcp_tool_duration_seconds tool_name
smg_requests_total
smg_request_duration_seconds
smg_active_workers
smg_queue_depth
smg_router_cache_hits_total
smg_router_cache_tree_size
`

// smgMissing are those of them that are not here, and why.
func smgMissing() map[string]string {
	const never = "smg does not have it either, though its documentation or its chart asks for it"
	return map[string]string{
		"smg_router_stage_duration_seconds": "of gRPC pipelines; smg describes it and emits it nowhere",
		"smg_mcp_tool_calls_total":          "no tools are run here",
		"smg_mcp_tool_duration_seconds":     "no tools are run here",
		"smg_requests_total":                never + ": smg_http_requests_total",
		"smg_request_duration_seconds":      never + ": smg_http_request_duration_seconds",
		"smg_active_workers":                never + ": sum(smg_worker_health)",
		"smg_queue_depth":                   never + ": smg_admission_queue_depth",
		"smg_router_cache_hits_total":       never + ": pdrouter_prefill_hit_tokens_total",
		"smg_router_cache_tree_size":        never + ": pdrouter_policy_index_blocks",
	}
}

// TestDashboardsOfSMGWork: what its users ask for is in our exposition, with the
// labels that they ask by, or listed as missing.
func TestDashboardsOfSMGWork(t *testing.T) {
	golden := string(readFile(t, "../../metrics/testdata/exposition.txt"))
	missing := smgMissing()
	for line := range strings.SplitSeq(strings.TrimSpace(smgAsked), "\n") {
		words := strings.Fields(line)
		family, labels := words[0], words[1:]
		series := regexp.MustCompile(`(?m)^` + family + `(_bucket|_count|_sum)?(\{.*\})? `).FindString(golden)
		if reason := missing[family]; reason != "" {
			delete(missing, family)
			if series != "" {
				t.Errorf("%s is listed as missing, and is here", family)
			}
			continue
		}
		if series == "" {
			t.Errorf("%s is missing", family)
		}
		if i := slices.IndexFunc(labels, func(label string) bool { return !regexp.MustCompile(`[{,]` + label + `="`).MatchString(series) }); i >= 0 {
			t.Errorf("%s has no label %s", family, labels[i])
		}
	}
	for family := range missing {
		t.Errorf("%s is listed as missing, and nobody asks for it", family)
	}
}

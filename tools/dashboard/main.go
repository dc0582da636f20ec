// Command dashboard writes deploy/grafana/pdrouter.json, for which it is the
// source: rows.go says what is asked, panels.go how it is drawn.
package main

import (
	"encoding/json"
	"fmt"
	"os"

	"github.com/grafana/grafana-foundation-sdk/go/cog"
	"github.com/grafana/grafana-foundation-sdk/go/common"
	"github.com/grafana/grafana-foundation-sdk/go/dashboard"
)

func main() {
	text, err := page()
	if err == nil {
		_, err = os.Stdout.Write(text)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "dashboard:", err)
		os.Exit(1)
	}
}

// page returns the dashboard as every Grafana since version 9 imports it; the
// newer schema, which the SDK prefers, only the newest do.
func page() ([]byte, error) {
	b := dashboard.NewDashboardBuilder("pdrouter").
		Uid("pdrouter").
		Description("Engines with prefill and decode apart, and the router before them. The first row says how full the KV caches are.").
		Tags([]string{"pdrouter", "llm"}).
		Refresh("5s").
		Time("now-30m", "now").
		Tooltip(dashboard.DashboardCursorSyncCrosshair).
		WithVariable(dashboard.NewDatasourceVariableBuilder("datasource").Label("Prometheus").Type("prometheus")).
		WithVariable(variable("instance", "router", "label_values(pdrouter_worker_kv_capacity_tokens, instance)")).
		WithVariable(variable("model", "model", "label_values(smg_router_requests_total{instance=~\"$instance\"}, model)")).
		WithVariable(variable("worker", "worker", "label_values(pdrouter_worker_kv_capacity_tokens{instance=~\"$instance\"}, worker)"))
	for _, r := range rows() {
		b.WithRow(dashboard.NewRowBuilder(r.title))
		for _, p := range r.panels {
			b.WithPanel(p)
		}
	}
	d, err := b.Build()
	if err != nil {
		return nil, err
	}
	for i := range d.Panels { // links of alerts name panels by them
		id := uint32(i + 1)
		if p := d.Panels[i].Panel; p != nil {
			p.Id = &id
		} else {
			d.Panels[i].RowPanel.Id = id
		}
	}
	text, err := json.MarshalIndent(d, "", "  ")
	return append(text, '\n'), err
}

// variable returns one of which any values may be chosen; all are at first.
func variable(name, label, query string) cog.Builder[dashboard.VariableModel] {
	all, every := "All", "$__all"
	return dashboard.NewQueryVariableBuilder(name).
		Label(label).
		Datasource(source()).
		Query(dashboard.StringOrMap{String: &query}).
		Refresh(dashboard.VariableRefreshOnTimeRangeChanged).
		Sort(dashboard.VariableSortAlphabeticalAsc).
		Multi(true).IncludeAll(true).AllValue(".*").
		Current(dashboard.VariableOption{
			Text:  dashboard.StringOrArrayOfString{String: &all},
			Value: dashboard.StringOrArrayOfString{String: &every},
		})
}

// source is the Prometheus that is chosen above the dashboard.
func source() common.DataSourceRef {
	kind, uid := "prometheus", "${datasource}"
	return common.DataSourceRef{Type: &kind, Uid: &uid}
}

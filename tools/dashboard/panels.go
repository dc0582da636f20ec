package main

import (
	"strings"

	"github.com/grafana/grafana-foundation-sdk/go/bargauge"
	"github.com/grafana/grafana-foundation-sdk/go/cog"
	"github.com/grafana/grafana-foundation-sdk/go/cog/variants"
	"github.com/grafana/grafana-foundation-sdk/go/common"
	"github.com/grafana/grafana-foundation-sdk/go/dashboard"
	"github.com/grafana/grafana-foundation-sdk/go/prometheus"
	"github.com/grafana/grafana-foundation-sdk/go/stat"
	"github.com/grafana/grafana-foundation-sdk/go/statetimeline"
	"github.com/grafana/grafana-foundation-sdk/go/timeseries"
)

type panel = cog.Builder[dashboard.Panel]

// A row is a heading and what stands under it.
type row struct {
	title  string
	panels []panel
}

// A look is what a panel is like, whatever it asks.
type look struct {
	title, about string
	unit         string
	width        uint32      // of 24; zero is 8
	most         float64     // the upper end of the scale; zero is none
	signed       bool        // values may be below zero
	steps        []threshold // ascending
}

// A threshold is where a color begins.
type threshold struct {
	from  float64
	color string
}

// An ask is a query, and what its series are called.
type ask struct{ expr, legend string }

const height = 9

// query returns an ask as Grafana takes it. What stands for the choices above the
// dashboard is written out: @router, @model and @worker in selectors, $r for the
// time that rates are taken over. Nth names it within its panel.
func query(a ask, nth int, instant bool) cog.Builder[variants.Dataquery] {
	const router = `instance=~"$instance"`
	expr := strings.NewReplacer(
		"@router", router, "@model", router+`,model=~"$model"`, "@worker", router+`,worker=~"$worker"`, "$r", "$__rate_interval",
	).Replace(a.expr)
	q := prometheus.NewDataqueryBuilder().Datasource(source()).Expr(expr).LegendFormat(a.legend).RefId(string(rune('A' + nth)))
	if instant {
		return q.Instant()
	}
	return q.Range()
}

// lines draws what is asked over time.
func lines(l look, asks ...ask) panel {
	b := timeseries.NewPanelBuilder().
		Title(l.title).Description(l.about).Datasource(source()).
		Unit(l.unit).Height(height).Span(l.span()).
		FillOpacity(8).LineWidth(1).ShowPoints(common.VisibilityModeNever).
		Legend(common.NewVizLegendOptionsBuilder().
			DisplayMode(common.LegendDisplayModeList).Placement(common.LegendPlacementBottom).ShowLegend(true)).
		Tooltip(common.NewVizTooltipOptionsBuilder().Mode(common.TooltipDisplayModeMulti).Sort(common.SortOrderDescending))
	if l.most > 0 {
		b.Max(l.most)
	}
	if l.signed {
		b.AxisCenteredZero(true)
	} else {
		b.Min(0)
	}
	if len(l.steps) > 0 {
		b.Thresholds(thresholds(l.steps)).
			ThresholdsStyle(common.NewGraphThresholdsStyleConfigBuilder().Mode(common.GraphThresholdsStyleModeDashed))
	}
	for i, a := range asks {
		b.WithTarget(query(a, i, false))
	}
	return b
}

// bars draws each series of this moment as a bar.
func bars(l look, asks ...ask) panel {
	b := bargauge.NewPanelBuilder().
		Title(l.title).Description(l.about).Datasource(source()).
		Unit(l.unit).Min(0).Max(l.most).Decimals(0).Height(height).Span(l.span()).
		Orientation(common.VizOrientationHorizontal).DisplayMode(common.BarGaugeDisplayModeLcd).
		ReduceOptions(common.NewReduceDataOptionsBuilder().Calcs([]string{"lastNotNull"})).
		NoValue(notKnown).Mappings(unknownValue()).
		ColorScheme(byThreshold()).Thresholds(thresholds(l.steps))
	for i, a := range asks {
		b.WithTarget(query(a, i, true))
	}
	return b
}

// numbers writes each series of this moment as a number.
func numbers(l look, mappings []dashboard.ValueMapping, asks ...ask) panel {
	b := stat.NewPanelBuilder().
		Title(l.title).Description(l.about).Datasource(source()).
		Unit(l.unit).Decimals(0).Height(height).Span(l.span()).
		Orientation(common.VizOrientationHorizontal).GraphMode(common.BigValueGraphModeNone).
		ColorMode(common.BigValueColorModeValue).TextMode(common.BigValueTextModeValueAndName).
		ReduceOptions(common.NewReduceDataOptionsBuilder().Calcs([]string{"lastNotNull"})).
		NoValue(notKnown).Mappings(append(mappings, unknownValue()...)).
		ColorScheme(byThreshold()).Thresholds(thresholds(l.steps))
	for i, a := range asks {
		b.WithTarget(query(a, i, true))
	}
	return b
}

// states draws in which of some states each series was, over time.
func states(l look, names map[string]dashboard.ValueMappingResult, asks ...ask) panel {
	words := dashboard.NewValueMap()
	words.Options = names
	b := statetimeline.NewPanelBuilder().
		Title(l.title).Description(l.about).Datasource(source()).
		Height(height).Span(l.span()).MergeValues(true).ShowValue(common.VisibilityModeNever).
		Mappings([]dashboard.ValueMapping{{ValueMap: words}})
	for i, a := range asks {
		b.WithTarget(query(a, i, false))
	}
	return b
}

func (l look) span() uint32 {
	if l.width == 0 {
		return 8
	}
	return l.width
}

const notKnown = "not known"

// unknownValue names what is not known, which is NaN.
func unknownValue() []dashboard.ValueMapping {
	text, m := notKnown, dashboard.NewSpecialValueMap()
	m.Options.Match = dashboard.SpecialValueMatchNullAndNan
	m.Options.Result = dashboard.ValueMappingResult{Text: &text}
	return []dashboard.ValueMapping{{SpecialValueMap: m}}
}

// from names all values from one on.
func from(least float64, text, color string) []dashboard.ValueMapping {
	m := dashboard.NewRangeMap()
	m.Options = dashboard.DashboardRangeMapOptions{From: &least, Result: dashboard.ValueMappingResult{Text: &text, Color: &color}}
	return []dashboard.ValueMapping{{RangeMap: m}}
}

// named is a state's name and color.
func named(text, color string) dashboard.ValueMappingResult {
	return dashboard.ValueMappingResult{Text: &text, Color: &color}
}

func byThreshold() cog.Builder[dashboard.FieldColor] {
	return dashboard.NewFieldColorBuilder().Mode(dashboard.FieldColorModeIdThresholds)
}

// thresholds returns steps after one that has no beginning, which is green; a
// first step from zero stands in its place.
func thresholds(steps []threshold) cog.Builder[dashboard.ThresholdsConfig] {
	all := []dashboard.Threshold{{Color: "green"}}
	for _, s := range steps {
		if s.from == 0 {
			all[0].Color = s.color
			continue
		}
		all = append(all, dashboard.Threshold{Value: &s.from, Color: s.color})
	}
	return dashboard.NewThresholdsConfigBuilder().Mode(dashboard.ThresholdsModeAbsolute).Steps(all)
}

package metrics

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
)

// A fleet gathers what is told of workers. With 128 of them it is nearly all of
// a page, and to send each value through a registry, which makes sure of
// everything, costs more than all else of a scrape. Here each family comes from
// one line of a table, and there is one worker for each role and URL, so there is
// nothing to make sure of.
type fleet struct {
	look   func() []WorkerState
	models *modelNames
	groups []group
}

func newFleet(look func() []WorkerState, models *modelNames) *fleet {
	return &fleet{look, models, workerGroups(models)}
}

// gather returns the families, sorted. A panic is an error of theirs, and of
// nothing else on the page.
func (f *fleet) gather() (all []*dto.MetricFamily, err error) {
	defer func() {
		if p := recover(); p != nil {
			all, err = nil, fmt.Errorf("workers: panic: %v", p)
		}
	}()
	workers := f.look()
	slices.SortFunc(workers, func(a, b WorkerState) int {
		return cmp.Or(strings.Compare(a.URL, b.URL), strings.Compare(a.Role, b.Role))
	})
	for i := range f.groups {
		all = f.groups[i].gather(all, workers)
	}
	if pools := f.pools(workers); len(pools.Metric) > 0 {
		all = append(all, pools)
	}
	slices.SortFunc(all, byName)
	return all, nil
}

func byName(a, b *dto.MetricFamily) int { return strings.Compare(a.GetName(), b.GetName()) }

// gather appends the families of a group to all, if any worker has them.
func (g *group) gather(all []*dto.MetricFamily, workers []WorkerState) []*dto.MetricFamily {
	var (
		of     []*WorkerState
		labels [][]*dto.LabelPair
	)
	names := prometheus.NewDesc("labels", "", g.labels, nil)
	for i := range workers {
		if values := g.values(&workers[i]); values != nil {
			of = append(of, &workers[i])
			labels = append(labels, prometheus.MakeLabelPairs(names, values))
		}
	}
	if len(of) == 0 {
		return all
	}
	for k := range g.families {
		all = append(all, g.families[k].gather(of, labels))
	}
	return all
}

// gather returns the family with the values of those workers.
func (f *family) gather(of []*WorkerState, labels [][]*dto.LabelPair) *dto.MetricFamily {
	series, values := make([]dto.Metric, len(of)), make([]float64, len(of))
	family := newFamily(f.name, f.help, f.kind)
	family.Metric = make([]*dto.Metric, len(of))
	for i, w := range of {
		values[i] = f.value(w)
		series[i].Label = labels[i]
		fill(&series[i], f.kind, &values[i])
		family.Metric[i] = &series[i]
	}
	return family
}

func newFamily(name, help string, kind prometheus.ValueType) *dto.MetricFamily {
	of := dto.MetricType_GAUGE
	if kind == prometheus.CounterValue {
		of = dto.MetricType_COUNTER
	}
	return &dto.MetricFamily{Name: &name, Help: &help, Type: &of}
}

func fill(m *dto.Metric, kind prometheus.ValueType, value *float64) {
	if kind == prometheus.CounterValue {
		m.Counter = &dto.Counter{Value: value}
	} else {
		m.Gauge = &dto.Gauge{Value: value}
	}
}

// pools counts workers by role and model.
func (f *fleet) pools(workers []WorkerState) *dto.MetricFamily {
	type pool struct{ role, model string }
	count := map[pool]float64{}
	for i := range workers {
		for _, m := range workers[i].Models {
			count[pool{workers[i].Role, f.models.label(m)}]++
		}
	}
	desc := prometheus.NewDesc("labels", "", []string{"worker_type", "connection_mode", "model"}, nil)
	all := newFamily("smg_worker_pool_size", "Workers by role and model.", prometheus.GaugeValue)
	for p, n := range count {
		all.Metric = append(all.Metric, &dto.Metric{Label: prometheus.MakeLabelPairs(desc, []string{p.role, connection, p.model}), Gauge: &dto.Gauge{Value: &n}})
	}
	slices.SortFunc(all.Metric, func(a, b *dto.Metric) int { return slices.CompareFunc(a.Label, b.Label, byValue) })
	return all
}

func byValue(a, b *dto.LabelPair) int { return strings.Compare(a.GetValue(), b.GetValue()) }

// A page gathers all that there is on it.
type page struct {
	rest  prometheus.Gatherer
	fleet *fleet
}

// Gather implements prometheus.Gatherer. What is wrong with one of the two is no
// reason to leave out the other.
func (p page) Gather() ([]*dto.MetricFamily, error) {
	all, err := p.rest.Gather()
	of, fault := p.fleet.gather()
	all = append(all, of...)
	slices.SortFunc(all, byName)
	if err == nil {
		err = fault
	}
	return all, err
}

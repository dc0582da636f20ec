package workers

// sglangLoads is the part of SGLang's /v1/loads that matters here. It has one
// element for each data-parallel rank.
type sglangLoads struct {
	Loads []sglangLoad `json:"loads"`
}

type sglangLoad struct {
	Running    *float64 `json:"num_running_reqs"`
	Waiting    *float64 `json:"num_waiting_reqs"`
	Used       *float64 `json:"num_used_tokens"`
	Capacity   *float64 `json:"max_total_num_tokens"`
	MaxRunning *float64 `json:"max_running_requests"`
	HandOff    struct {
		Bootstrap *float64 `json:"prefill_bootstrap_queue_reqs"`
		Inflight  *float64 `json:"prefill_inflight_queue_reqs"`
		Prealloc  *float64 `json:"decode_prealloc_queue_reqs"`
		Transfer  *float64 `json:"decode_transfer_queue_reqs"`
	} `json:"disaggregation"`
}

// A loadReading says where in /v1/loads one number of a Report stands.
type loadReading struct {
	field string
	keys  string
	into  func(f *figures) *float64
	from  func(l *sglangLoad) []*float64 // what is added up
}

// loadReadings is where /v1/loads tells what, summed over its elements.
func loadReadings() []loadReading {
	return []loadReading{
		{"KVCapacity", "max_total_num_tokens", func(f *figures) *float64 { return &f.KVCapacity }, func(l *sglangLoad) []*float64 { return []*float64{l.Capacity} }},
		{"KVUsed", "num_used_tokens", func(f *figures) *float64 { return &f.KVUsed }, func(l *sglangLoad) []*float64 { return []*float64{l.Used} }},
		{"MaxRunning", "max_running_requests", func(f *figures) *float64 { return &f.MaxRunning }, func(l *sglangLoad) []*float64 { return []*float64{l.MaxRunning} }},
		{"Running", "num_running_reqs", func(f *figures) *float64 { return &f.Running }, func(l *sglangLoad) []*float64 { return []*float64{l.Running} }},
		{"Waiting", "num_waiting_reqs", func(f *figures) *float64 { return &f.Waiting }, func(l *sglangLoad) []*float64 { return []*float64{l.Waiting} }},
		{
			"TransferQueue", "disaggregation.prefill_bootstrap_queue_reqs + prefill_inflight_queue_reqs + decode_prealloc_queue_reqs + decode_transfer_queue_reqs",
			func(f *figures) *float64 { return &f.TransferQueue },
			func(l *sglangLoad) []*float64 {
				h := &l.HandOff
				return []*float64{h.Bootstrap, h.Inflight, h.Prealloc, h.Transfer}
			},
		},
	}
}

// fill puts into f what the page tells; the rest stays.
func (p *sglangLoads) fill(f *figures) {
	for _, r := range loadReadings() {
		total, told := 0.0, len(p.Loads) > 0
		for i := range p.Loads {
			for _, v := range r.from(&p.Loads[i]) {
				if v == nil || *v < 0 {
					told = false
					break
				}
				total += *v
			}
		}
		if told {
			*r.into(f) = total
		}
	}
}

// sglangCapacity is what /server_info tells of the pool, for engines that have
// their metrics off. It speaks of one data-parallel rank.
type sglangCapacity struct {
	PageSize *float64 `json:"page_size"`
	Context  *float64 `json:"context_length"` // null: whatever the model has
}

// fill puts into f what the page tells.
func (c *sglangCapacity) fill(f *figures) {
	if c.PageSize != nil {
		f.BlockSize = *c.PageSize
	}
	if c.Context != nil {
		f.MaxContext = *c.Context
	}
}

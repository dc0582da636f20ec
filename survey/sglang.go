package survey

import (
	"context"
	"errors"
)

// askSGLang asks an engine as if it were SGLang.
func askSGLang(ctx context.Context, p Place) (*Engine, error) {
	var info struct {
		Mode          *string `json:"disaggregation_mode"`
		Version       string  `json:"version"`
		PageSize      int     `json:"page_size"`
		KVDtype       string  `json:"kv_cache_dtype"`
		Dtype         string  `json:"dtype"`
		TP            int     `json:"tp_size"`
		DP            int     `json:"dp_size"`
		Backend       string  `json:"disaggregation_transfer_backend"`
		Metrics       bool    `json:"enable_metrics"`
		Host          string  `json:"host"`
		BootstrapPort int     `json:"disaggregation_bootstrap_port"`
	}
	e := &Engine{Kind: SGLang, Handoffs: -1}
	err := p.getJSON(ctx, "/server_info", &info, e)
	if errors.Is(err, errNotServed) {
		err = p.getJSON(ctx, "/get_server_info", &info, e) // before SGLang 0.5
	}
	switch {
	case err != nil:
		return nil, err
	case info.Mode == nil:
		return nil, errNotServed // some other server's page of that name
	}
	e.Version, e.Role, e.HandsOver = info.Version, *info.Mode, *info.Mode != "null"
	e.PageSize, e.KVDtype, e.Dtype, e.TP, e.DP = info.PageSize, info.KVDtype, info.Dtype, info.TP, info.DP
	e.Backend, e.Metrics, e.BootstrapHost = info.Backend, info.Metrics, info.Host
	if e.Role == "prefill" {
		e.BootstrapPort = info.BootstrapPort
	}
	if page, err := p.get(ctx, "/metrics", e); err == nil {
		e.Handoffs = sum(page, "sglang:kv_transfer_latency_ms_count")
	} else if errors.Is(err, errNotServed) {
		e.Metrics = false
	}
	return e, nil
}

// A Bootstrap is what SGLang's bootstrap server says of its prefill engine, as
// decode engines ask it.
type Bootstrap struct {
	TP       int    `json:"attn_tp_size"`
	PageSize int    `json:"page_size"`
	KVDtype  string `json:"kv_cache_dtype"`
}

// AskBootstrap asks the bootstrap server at p.
func AskBootstrap(ctx context.Context, p Place) (Bootstrap, error) {
	var b Bootstrap
	err := p.getJSON(ctx, "/route?prefill_dp_rank=-1&prefill_cp_rank=-1&target_tp_rank=-1&target_pp_rank=-1", &b, &Engine{})
	return b, err
}

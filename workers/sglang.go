package workers

import (
	"context"
	"errors"
	"fmt"
)

// sglangInfo is the part of SGLang's /server_info that matters here. The page
// has some 300 keys; captures of it are in the tests of package sim.
type sglangInfo struct {
	Mode          *string `json:"disaggregation_mode"`
	BootstrapPort int     `json:"disaggregation_bootstrap_port"`
	Host          string  `json:"host"`
	PageSize      int     `json:"page_size"`
	KVDtype       string  `json:"kv_cache_dtype"`
	Version       string  `json:"version"`
}

// identifySGLang is the identifier of SGLang engines.
func identifySGLang(ctx context.Context, w *Worker) (*Facts, error) {
	var info sglangInfo
	err := askJSON(ctx, w, "/server_info", &info)
	if errors.Is(err, errNotServed) {
		err = askJSON(ctx, w, "/get_server_info", &info) // before SGLang 0.5
	}
	if err != nil {
		return nil, err
	}
	if info.Mode == nil {
		return nil, errNotServed // some other engine's page of that name
	}
	if *info.Mode != w.Role.String() {
		return nil, fmt.Errorf("configured for %s, but the engine runs with --disaggregation-mode %s", w.Role, *info.Mode)
	}
	facts := &Facts{
		Dialect:       "sglang",
		Version:       info.Version,
		BootstrapHost: info.Host,
		BootstrapPort: info.BootstrapPort,
		PageSize:      info.PageSize,
		KVDtype:       info.KVDtype,
	}
	facts.Models, err = askModels(ctx, w)
	return facts, err
}

package workers

import (
	"bytes"
	"context"
	"errors"
)

// identifyVLLM is the identifier of vLLM engines. Which connector an engine
// was started with shows in nothing but the names of its metrics; which role
// it has shows nowhere, because the router decides that.
func identifyVLLM(ctx context.Context, w *Worker) (*Facts, error) {
	var version struct {
		Version string `json:"version"`
	}
	if err := askJSON(ctx, w, "/version", &version); err != nil {
		return nil, err
	}
	page, err := ask(ctx, w, "/metrics")
	if err != nil && !errors.Is(err, errNotServed) {
		return nil, err
	}
	if !bytes.Contains(page, []byte("vllm:nixl_")) {
		return nil, errors.New("no vllm:nixl_ metrics in /metrics: the engine runs without NixlConnector; start it with --kv-transfer-config")
	}
	facts := &Facts{Dialect: "vllm-nixl", Version: version.Version}
	facts.Models, err = askModels(ctx, w)
	return facts, err
}

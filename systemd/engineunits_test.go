package systemd

import (
	"strings"
	"testing"
)

// There is a unit for each kind of engine and role, and each says what
// pdrouter init writes into its environment file.
func TestEngineUnits(t *testing.T) {
	for name, says := range map[string][]string{
		"sglang-prefill@.service": {"${BOOTSTRAP_PORT}", "--disaggregation-mode prefill"},
		"sglang-decode@.service":  {"--disaggregation-mode decode"},
		"vllm-prefill@.service":   {"VLLM_NIXL_SIDE_CHANNEL_PORT=", `"kv_role":"kv_producer"`},
		"vllm-decode@.service":    {"VLLM_NIXL_SIDE_CHANNEL_PORT=", `"kv_role":"kv_consumer"`},
	} {
		text, ok := EngineUnit(name)
		if !ok {
			t.Errorf("there is no %s", name)
		}
		for _, word := range append(says, "${MODEL}", "--port ${PORT}", "$EXTRA", "${WORKER}", "CUDA_VISIBLE_DEVICES=%i", "EnvironmentFile=-/etc/pdrouter/engines/%p-%i.env") {
			if !strings.Contains(text, word) {
				t.Errorf("%s does not say %q", name, word)
			}
		}
	}
	if _, ok := EngineUnit("none@.service"); ok {
		t.Error("there is a unit of any name")
	}
}

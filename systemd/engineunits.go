package systemd

import "embed"

//go:embed examples/engines/*.service
var engineUnits embed.FS

// EngineUnit returns the text of the example unit of that name, as in
// vllm-decode@.service.
func EngineUnit(name string) (text string, ok bool) {
	b, err := engineUnits.ReadFile("examples/engines/" + name)
	return string(b), err == nil
}

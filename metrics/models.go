package metrics

import "sync"

// mostModels is how many models have series of their own; smg has the same
// bound.
const mostModels = 1024

// otherModel is the label model of all further ones.
const otherModel = "other"

// modelNames are the models that have series of their own. One that has been let
// in stays, so that a series never ends for another's sake.
type modelNames struct {
	mu   sync.Mutex
	seen map[string]bool
}

// label returns the label of a model.
func (m *modelNames) label(model string) string {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.seen[model] {
		return model
	}
	if len(m.seen) >= mostModels {
		return otherModel
	}
	m.seen[model] = true
	return model
}

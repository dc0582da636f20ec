package sim

import (
	"encoding/json"
	"net/http"
)

// The paths of a process under test, see Config.Control. They are served
// whatever the engine was told to fail at, and need no key.
const (
	controlPrefix = "/sim/"
	FaultsPath    = "/sim/faults" // POST a Fault as JSON: Engine.Fail; DELETE: Engine.ClearFaults
	StatePath     = "/sim/state"  // GET: a State as JSON
)

// A State is what GET on StatePath answers.
type State struct {
	Stats      Stats
	Violations []string
}

// serveControl serves what tests of a process ask.
func (e *Engine) serveControl(w http.ResponseWriter, r *http.Request) {
	switch r.Method + " " + r.URL.Path {
	case "POST " + FaultsPath:
		var f Fault
		if err := json.NewDecoder(r.Body).Decode(&f); err != nil {
			http.Error(w, "fault: "+err.Error(), http.StatusBadRequest)
			return
		}
		e.Fail(f)
		w.WriteHeader(http.StatusNoContent)
	case "DELETE " + FaultsPath:
		e.ClearFaults()
		w.WriteHeader(http.StatusNoContent)
	case "GET " + StatePath:
		body, _ := json.Marshal(State{e.Stats(), e.Violations()}) // numbers and strings
		answerJSON(w, http.StatusOK, body)
	default:
		http.NotFound(w, r)
	}
}

package workers

import (
	"fmt"
	"slices"

	"pdrouter/exchange"
)

// A Worker is one engine as the router sees it. Its fields never change while
// a lease is out: what is learned about the engine later makes new Facts.
type Worker struct {
	Spec

	// ID is the role and the place in the configuration, as in "prefill-0".
	ID string

	// Peer is how to reach it.
	Peer *exchange.Peer

	load   Load
	state  State
	facts  *Facts // nil until the engine said what it is
	reason string // why it is not ready
}

// A State says whether a worker may be leased.
type State uint8

// The states.
const (
	Unready State = iota // not known yet, or at odds with its configuration
	Ready                // may be leased
)

// String returns the state's name, as in logs.
func (s State) String() string {
	if s == Ready {
		return "ready"
	}
	return "unready"
}

// Facts are what an engine told about itself. They are immutable.
type Facts struct {
	Dialect string   // how it hands off
	Version string   // the engine's own, for people
	Models  []string // what it serves, by the names in /v1/models

	// BootstrapHost and BootstrapPort are where decode engines meet this
	// prefill engine; sglang only. Port 0: say nothing, the engine decides.
	BootstrapHost string
	BootstrapPort int

	// PageSize (tokens) and KVDtype must agree on both sides of a pair.
	// Zero and empty: the engine does not tell, and nothing is compared.
	PageSize int
	KVDtype  string
}

// class groups the workers that can be paired with one another.
func (f *Facts) class() string {
	return fmt.Sprintf("%s/%d/%s", f.Dialect, f.PageSize, f.KVDtype)
}

func (f *Facts) serves(model string) bool {
	return model == "" || slices.Contains(f.Models, model)
}

// A Status is what there is to say about a worker at one moment.
type Status struct {
	Worker   *Worker
	State    State
	Reason   string // why it is unready; empty when it is ready
	Facts    Facts  // zero until the engine said what it is
	InFlight int    // leases not yet done
}

// An Event is a worker's change of state, or of the reason for it.
type Event struct {
	Worker   *Worker
	From, To State
	Reason   string
}

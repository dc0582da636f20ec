package workers

import (
	"fmt"
	"net"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"pdrouter/exchange"
)

// A Worker is one engine as the router sees it. Its fields never change while
// a lease is out: what is learned about the engine later makes new Facts.
type Worker struct {
	Spec

	// ID is the role and a number that no other worker of that role has had,
	// as in "prefill-0".
	ID string

	// Peer is how to reach it.
	Peer *exchange.Peer

	rekeyed *atomic.Pointer[string] // to the key in place of Spec.APIKey; nil: that one

	// The registry's lock guards the rest.

	ownKey bool // it has a key of its own, and not that of all

	load     Load
	ledger   ledger // of a decode worker
	room     room   // likewise
	ready    bool   // the engine said what it is, and it fits
	unfit    bool   // the engine said what it is, and it does not fit
	draining bool   // gets no new requests until it is told to
	removed  bool   // gets no new requests for ever
	settled  bool   // removed long enough ago to be forgotten
	reason   string // why it is not ready, or why it drains
	facts    *Facts // nil until the engine said what it is

	// bootstrap is how to reach the bootstrap server that facts name. Nil: they
	// name none.
	bootstrap *exchange.Peer

	looks, learnt int // looks begun, and the one that is believed
	cold          bool
	warmFrom      time.Time // since when it is being warmed; zero if it is not

	report Report
	pace   Pace
	polls  uint64 // reports asked for
	unread string // why the last report could not be read; empty if it was

	bars    []Bar     // one of each cause at most
	barred  time.Time // when the last of them ends
	refused time.Time // likewise, but for backpressure

	kv *kvNotes // counts by itself, without the lock

	told     chan struct{} // there is something to look at now
	stop     func()        // ends the goroutine that watches it
	settling *time.Timer   // until settled
}

// Key returns the bearer key that the engine asks for now; empty: none is known.
func (w *Worker) Key() string {
	if w.rekeyed != nil {
		if key := w.rekeyed.Load(); key != nil {
			return *key
		}
	}
	return w.APIKey
}

// Seat returns a small number that no other worker has as long as this one is
// there.
func (w *Worker) Seat() int { return w.load.Seat }

// A State says whether a worker may be leased.
type State uint8

// The states.
const (
	Unready  State = iota // not known yet, or at odds with its configuration
	Ready                 // may be leased
	Draining              // gets no new requests; those it has go on
)

// String returns the state's name, as in logs.
func (s State) String() string {
	switch s {
	case Ready:
		return "ready"
	case Draining:
		return "draining"
	case Unready:
	}
	return "unready"
}

func (w *Worker) state() State {
	switch {
	case w.draining, w.removed:
		return Draining
	case w.ready:
		return Ready
	default:
		return Unready
	}
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

	// KVEvents is where it publishes its KV events; empty: it does not tell.
	KVEvents []KVEndpoint
}

// bootstrapAddress returns where the bootstrap server listens.
func (f *Facts) bootstrapAddress() string {
	return net.JoinHostPort(f.BootstrapHost, strconv.Itoa(f.BootstrapPort))
}

// difference says what of a worker's facts has changed in a way that matters
// to those who send it requests; nothing if one of them is not known.
func difference(before, now *Facts) string {
	switch {
	case before == nil || now == nil:
		return ""
	case before.Dialect != now.Dialect:
		return fmt.Sprintf("it speaks %s, no longer %s", now.Dialect, before.Dialect)
	case !slices.Equal(before.Models, now.Models):
		return fmt.Sprintf("it serves %s, no longer %s", strings.Join(now.Models, ", "), strings.Join(before.Models, ", "))
	case before.Version != now.Version:
		return fmt.Sprintf("its version is %s, no longer %s", now.Version, before.Version)
	default:
		return ""
	}
}

func (f *Facts) serves(model string) bool {
	return model == "" || slices.Contains(f.Models, model)
}

// A Status is what there is to say about a worker at one moment.
type Status struct {
	Worker   *Worker
	State    State
	Reason   string  // why it is not ready; empty when it is
	Unfit    bool    // it is not ready because of what the engine is, so waiting alone does not help
	Facts    Facts   // zero until the engine said what it is
	InFlight int     // leases not yet done
	Removed  bool    // it is there only until its last lease has ended
	Bars     []Bar   // those in force
	Weight   float64 // its share of the load, below 1 while it is being warmed
	Report   Report  // the last one read; At is zero if none was
	Pace     Pace    // between the last two
	Polls    uint64  // how often one was asked for
	KVSpace  KV      // of a decode worker
	Most     int     // what bounds InFlight; 0: nothing does
	Unread   string  // why the last report could not be read
	KV       KVState // what was heard of its KV events

	// Bootstrap is how to reach the worker's bootstrap server; another one each
	// time that the engine has said what it is. Nil: it has none, or it is not
	// known where.
	Bootstrap *exchange.Peer
}

// An EventKind says what happened to a worker.
type EventKind uint8

// The kinds.
const (
	Changed          EventKind = iota // its state, or the reason for it
	Added                             // it is looked at from now on
	Removed                           // it gets no new requests any more
	Gone                              // its last lease has ended, and it is forgotten
	Learned                           // after a recheck it is no longer what it was
	Misfit                            // it cannot be paired with a worker of the other role
	Unread                            // its reports cannot be read
	Read                              // they can be read again
	KVEventsFollowed                  // its KV events are listened to
	KVEventsLost                      // some were missed: what it holds is not known any more
	KVEventsUnread                    // they cannot be read, in whole or in part
	Recalled                          // what was known of it before the router was restarted is known again
	Unrecalled                        // that is of no use any more
)

// String returns the kind's name, as in logs.
func (k EventKind) String() string {
	return [...]string{"changed", "added", "removed", "gone", "learned", "misfit", "unread", "read", "kv events followed", "kv events lost", "kv events unread", "recalled", "unrecalled"}[k]
}

// An Event is something that happened to a worker. Kinds but Changed leave
// From and To alike.
type Event struct {
	Worker   *Worker
	Kind     EventKind
	From, To State
	Reason   string
}

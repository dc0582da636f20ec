package admin

import (
	"context"
	"errors"
	"net/http"
)

// An Upgrader has another process take the place of this one.
type Upgrader interface {
	// Upgrade returns when the other one serves, or with the reason why it does
	// not, and then this one goes on. It goes on also if ctx ends, which is that
	// of who asked.
	Upgrade(ctx context.Context) (Upgraded, error)
}

// ErrNotNow reports an upgrade that is not tried: one is under way, or the
// daemon stops.
var ErrNotNow = errors.New("not now")

// Upgraded is the answer to POST /upgrade.
type Upgraded struct {
	From    int     `json:"from_pid"`
	To      int     `json:"to_pid"`
	Running int     `json:"running"` // requests that the old one runs to their end
	Seconds float64 `json:"seconds"` // until the new one served
}

// SetUpgrader makes u what POST /upgrade asks. It is called before anything is
// served.
func (a *API) SetUpgrader(u Upgrader) { a.upgrader = u }

func (a *API) upgrade(r *http.Request, _ []byte) (reply, error) {
	if a.upgrader == nil {
		return reply{}, &Error{Status: http.StatusNotImplemented, Code: "NOT_IMPLEMENTED", Message: "This daemon cannot be upgraded."}
	}
	done, err := a.upgrader.Upgrade(r.Context())
	switch {
	case errors.Is(err, ErrNotNow):
		return reply{}, &Error{Status: http.StatusConflict, Code: "UPGRADE_NOT_NOW", Message: err.Error()}
	case err != nil:
		return reply{}, &Error{Status: http.StatusInternalServerError, Code: "UPGRADE_FAILED", Message: err.Error()}
	}
	return reply{status: http.StatusOK, body: done}, nil
}

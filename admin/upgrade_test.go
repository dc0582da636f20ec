package admin

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"
)

// upgrades is an Upgrader that fails with err.
type upgrades struct{ err error }

func (u upgrades) Upgrade(context.Context) (Upgraded, error) {
	return Upgraded{From: 1, To: 2}, u.err
}

func TestUpgradeIsAnswered(t *testing.T) {
	for _, tt := range []struct {
		name   string
		u      Upgrader
		status int
		want   string
	}{
		{"done", upgrades{}, http.StatusOK, `"to_pid":2`},
		{"not now", upgrades{fmt.Errorf("%w: one is under way", ErrNotNow)}, http.StatusConflict, "UPGRADE_NOT_NOW"},
		{"failed", upgrades{errors.New("it is no program")}, http.StatusInternalServerError, `"it is no program"`},
		{"not possible", nil, http.StatusNotImplemented, "NOT_IMPLEMENTED"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			d := newDesk(t, nil)
			if tt.u != nil {
				d.api.SetUpgrader(tt.u)
			}
			if got := d.ask(http.MethodPost, "/upgrade", ""); got.status != tt.status || !strings.Contains(got.body, tt.want) {
				t.Errorf("POST /upgrade = %+v, want %d and %s", got, tt.status, tt.want)
			}
		})
	}
}

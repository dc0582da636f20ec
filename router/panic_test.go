package router

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"pdrouter/transfer"
	"pdrouter/workers"
)

// TestPanicInALeg is about a bug of ours in the goroutine of the prefill leg:
// it fails its request, and neither the process nor a lease suffers (I1).
func TestPanicInALeg(t *testing.T) {
	f := newFleet(t, "sglang", hang, hang)
	req, err := transfer.Parse(transfer.Chat, []byte(chatRequest))
	if err != nil {
		t.Fatal(err)
	}
	var pair workers.Pair
	if err := f.registry.Lease(t.Context(), workers.Need{}, &pair); err != nil {
		t.Fatal(err)
	}
	a := &attempt{h: f.handler, call: &call{r: httptest.NewRequest(http.MethodPost, "/", nil)}, req: req, dialect: transfer.SGLang{}}
	a.legs[workers.Prefill].lease, a.legs[workers.Decode].lease = &pair.Prefill, &pair.Decode
	a.prefilled = make(chan struct{})
	a.ctx, a.cancel = context.WithCancelCause(t.Context())

	func() {
		defer a.endRest()
		defer a.survive()
		panic("a bug")
	}()

	e := errorFor(a.outcome())
	if e.Status != http.StatusInternalServerError || !strings.Contains(e.Error(), "a bug") || strings.Contains(string(e.envelope()), "a bug") {
		t.Errorf("outcome = %v, told as %s, want a 500 that the log explains and the client does not", e, e.envelope())
	}
	if a.ctx.Err() == nil {
		t.Error("the other leg goes on")
	}
	for _, s := range f.registry.Statuses() {
		if s.InFlight != 0 {
			t.Errorf("%s has %d leases, want 0", s.Worker.ID, s.InFlight)
		}
	}
}

package admin

import (
	"strings"
	"testing"

	"pdrouter/sim"
)

// Whoever knows that an engine was restarted may say so: it is looked at anew.
func TestRecheck(t *testing.T) {
	d := newDesk(t, nil)
	id := d.add("decode", engine(t, sim.SGLang, sim.Decode, nil).URL())
	d.await(id, Ready)
	want[Accepted](t, d.ask("POST", "/workers/"+id+"/recheck", ""), 202)
	if w := d.worker(id); w.Status == NotReady && !strings.Contains(w.Reason, "started anew") {
		t.Errorf("worker = %+v, want it looked at anew", w)
	}
	d.await(id, Ready)
	wantError(t, d.ask("POST", "/workers/decode-9/recheck", ""), 404, "WORKER_NOT_FOUND", "decode-9")
}

package workers

import (
	"fmt"
	"strings"
	"testing"
)

// A listening chooser wants to be told of KV events.
type listening struct {
	first
	*toldSink
}

// TestKVEventsOfAWorker: a worker whose engine says where it publishes is
// followed until it is removed.
func TestKVEventsOfAWorker(t *testing.T) {
	ports := freePorts(t, 2)
	p := startPublisher(t, ports[0], ports[1], "")
	p.do(fmt.Sprintf(mapStored, 1, 2))
	info := strings.TrimSuffix(sglangPrefill("127.0.0.1"), "}") + fmt.Sprintf(`,"kv_events":{"publisher":"zmq","endpoint_host":"0.0.0.0",`+
		`"endpoint_port_base":%d,"replay_endpoint_port_base":%d,"topic":"","block_size":2,"dp_size":1}}`, ports[0], ports[1])
	url := serve(t, pages{"/server_info": info, "/v1/models": `{"data":[{"id":"m"}]}`})
	sink, events := &toldSink{}, &diary{}
	r := run(t, events, func(r *Registry) { r.setChooser(listening{toldSink: sink}) }, Spec{Role: Prefill, URL: url})
	told := []string{"followed 0.0", "stored [1 2] after root, [1 2 3 4] by 2"}
	sink.want(t, told...)
	s, _ := r.Get("prefill-0")
	if s.KV.Ranks != 1 || s.KV.Followed != 1 || s.KV.Stored != 2 || s.KV.Replayed != 1 {
		t.Errorf("status tells %+v", s.KV)
	}
	if err := r.Remove("prefill-0"); err != nil {
		t.Fatal(err)
	}
	sink.want(t, append(told, "lost 0.0")...)
	if said := strings.Join(events.take(), "\n"); !strings.Contains(said, "kv events followed") || !strings.Contains(said, tcp(ports[0])) {
		t.Errorf("events are\n%s", said)
	}
}

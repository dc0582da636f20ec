package workers

import (
	"net"
	"strconv"
	"strings"
)

// sglangKVEvents is what SGLang's /server_info says of its KV events. It has
// none of it if the engine does not publish any.
type sglangKVEvents struct {
	Publisher string `json:"publisher"`
	Host      string `json:"endpoint_host"`
	Port      int    `json:"endpoint_port_base"`
	Replay    int    `json:"replay_endpoint_port_base"`
	Topic     string `json:"topic"`
	Ranks     int    `json:"dp_size"`
}

// endpoints returns where w's engine publishes; nowhere if it does not say so
// in a way that can be used.
func (k *sglangKVEvents) endpoints(w *Worker) []KVEndpoint {
	if k == nil || k.Publisher != "zmq" || k.Port < 1 || k.Ranks > maxKVRanks || k.Port+max(k.Ranks, 1)-1 > 65535 {
		return nil
	}
	host := strings.Trim(k.Host, "[]")
	if host == "" || isWildcard(host) {
		host = Hostname(w.URL)
	}
	at := func(port int) string { return "tcp://" + net.JoinHostPort(host, strconv.Itoa(port)) }
	rule := KVRule{Events: at(k.Port), Topic: k.Topic, Ranks: k.Ranks}
	if k.Replay > 0 && k.Replay+max(k.Ranks, 1)-1 <= 65535 {
		rule.Replay = at(k.Replay)
	}
	if len(checkKVRules([]KVRule{{Worker: w.URL, Events: rule.Events}})) > 0 {
		return nil
	}
	return rule.endpoints()
}

package doctor

import (
	"cmp"
	"context"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"

	"pdrouter/survey"
)

// handOffs finds whether decode engines reach what they have to reach, where that
// can be known.
func (c *Case) handOffs(ctx context.Context, workers []examined) []Finding {
	found := &chart{check: HandOffs}
	var remote []string // hosts of decode engines that are not here
	for _, w := range workers {
		if host := hostOf(w.URL); w.Role == "decode" && !survey.IsHere(host) {
			remote = append(remote, host)
		}
	}
	for _, w := range workers {
		switch {
		case w.engine == nil:
		case w.Role == "prefill" && w.engine.Kind == survey.SGLang && w.engine.Role == "prefill":
			c.bootstrap(ctx, found, w, remote)
		case w.Role == "decode" && w.engine.Kind == survey.VLLM && w.engine.HandsOver && w.engine.Handoffs > 0:
			found.note(OK, w.name(), "", "it has fetched %.0f hand-offs", w.engine.Handoffs)
		case w.Role == "decode" && w.engine.Kind == survey.VLLM && w.engine.HandsOver:
			found.note(Unknown, w.name(), "send one request, and ask again; VLLM_NIXL_SIDE_CHANNEL_HOST of prefill must be an address that decode reaches",
				"it has fetched nothing yet, and vLLM tells nobody but decode where NIXL listens: it cannot be known from here")
		}
	}
	return found.all
}

// bootstrap finds whether the bootstrap server of a prefill engine is reached.
func (c *Case) bootstrap(ctx context.Context, found *chart, w examined, remote []string) {
	port := cmp.Or(max(w.BootstrapPort, 0), w.engine.BootstrapPort)
	host := cmp.Or(w.BootstrapHost, hostOf(w.URL))
	if strings.HasPrefix(w.URL, "unix:") {
		host = cmp.Or(w.BootstrapHost, w.engine.BootstrapHost)
	}
	at := net.JoinHostPort(host, strconv.Itoa(port))
	if told := w.engine.BootstrapPort; w.BootstrapPort > 0 && told != 0 && told != w.BootstrapPort {
		found.note(Fault, w.name(), fmt.Sprintf("write %d behind its URL, or nothing: then it is asked", told), "its bootstrap port is configured as %d, and it says that it is %d", w.BootstrapPort, told)
		return
	}
	if survey.IsLoopback(host) && len(remote) > 0 {
		found.note(Fault, w.name(), "give it an address of this host that others reach, in its URL or as bootstrap-host in the file", "decode engines on %s are told to find its bootstrap server at %s, which is themselves", strings.Join(remote, ", "), at)
		return
	}
	bounded, cancel := context.WithTimeout(ctx, askTime)
	defer cancel()
	place := survey.NewPlace("http://"+at, "", &http.Transport{})
	defer place.Client.CloseIdleConnections()
	_, err := survey.AskBootstrap(bounded, place)
	switch {
	case err == nil && len(remote) == 0:
		found.note(OK, w.name(), "", "its bootstrap server answers at %s, here where the decode engines are", at)
	case err == nil:
		found.note(Unknown, w.name(), fmt.Sprintf("on %s: curl http://%s/health", remote[0], at), "its bootstrap server answers at %s from here; whether it does from %s cannot be known from here", at, strings.Join(remote, ", "))
	case len(remote) == 0:
		found.note(Fault, w.name(), "look into the engine's log whether its bootstrap server has started, and at which port", "its bootstrap server does not answer at %s: %v; no hand-off works without it", at, err)
	default:
		found.note(Warning, w.name(), fmt.Sprintf("on %s: curl http://%s/health", remote[0], at), "its bootstrap server does not answer at %s from here (%v); whether it does from %s cannot be known from here", at, err, strings.Join(remote, ", "))
	}
}

// hostOf returns the host of a worker's URL.
func hostOf(at string) string {
	u, err := url.Parse(at)
	if err != nil || u.Host == "" {
		return "localhost" // a unix socket
	}
	return u.Hostname()
}

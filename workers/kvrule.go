package workers

import (
	"errors"
	"fmt"
	"net"
	"strconv"
	"strings"
)

// A KVRule says whose KV events are followed, and where they are published.
type KVRule struct {
	// All is "auto", for all workers whose engines say where they publish, or
	// "off", for none but those with a rule of their own. Empty: the rule is for
	// one worker.
	All string

	// Worker is that worker's URL, Events is where its engine publishes, and
	// Replay where it can be asked for what was missed, as in
	// tcp://host:5557. Empty Replay: it cannot. An engine of several
	// data-parallel ranks has a port for each, of which Events names the first.
	Worker, Events, Replay string

	// Topic is what its messages begin with. Empty: they are all taken.
	Topic string

	// Ranks is how many data-parallel ranks the engine has. 0: one.
	Ranks int
}

// ParseKVRule reads "auto", "off", or URL=tcp://HOST:PORT with any of
// ,replay=tcp://HOST:PORT ,topic=TOPIC ,ranks=N after it.
func ParseKVRule(text string) (KVRule, error) {
	if text == "auto" || text == "off" {
		return KVRule{All: text}, nil
	}
	worker, rest, ok := strings.Cut(text, "=")
	if !ok {
		return KVRule{}, errors.New("neither auto, off nor WORKER_URL=tcp://HOST:PORT")
	}
	words := strings.Split(rest, ",")
	r := KVRule{Worker: worker, Events: words[0]}
	for _, word := range words[1:] {
		name, value, _ := strings.Cut(word, "=")
		if value == "" {
			return r, fmt.Errorf("%q: says nothing", word)
		}
		switch name {
		case "replay":
			r.Replay = value
		case "topic":
			r.Topic = value
		case "ranks":
			n, err := strconv.Atoi(value)
			if err != nil {
				return r, fmt.Errorf("ranks=%q is not a whole number", value)
			}
			r.Ranks = n
		default:
			return r, fmt.Errorf("%q is unknown; known are replay=, topic= and ranks=", word)
		}
	}
	return r, nil
}

// String returns what ParseKVRule reads.
func (r KVRule) String() string {
	if r.All != "" {
		return r.All
	}
	text := r.Worker + "=" + r.Events
	if r.Replay != "" {
		text += ",replay=" + r.Replay
	}
	if r.Topic != "" {
		text += ",topic=" + r.Topic
	}
	if r.Ranks != 0 {
		text += ",ranks=" + strconv.Itoa(r.Ranks)
	}
	return text
}

// checkKVRules reports what is wrong with the rules.
func checkKVRules(rules []KVRule) []error {
	var faults []error
	wrong := func(format string, args ...any) { faults = append(faults, fmt.Errorf("kv-events: "+format, args...)) }
	seen := map[string]bool{}
	for _, r := range rules {
		name := "the rule for " + r.Worker
		if r.All != "" {
			name = "auto or off"
		}
		if seen[name] {
			wrong("%s is given twice", name)
		}
		seen[name] = true
		if r.All != "" {
			continue
		}
		if r.Worker == "" {
			wrong("%q names no worker", r)
		}
		if _, _, err := splitTCP(r.Events); err != nil {
			wrong("%q: %w", r, err)
		}
		if r.Replay != "" {
			if _, _, err := splitTCP(r.Replay); err != nil {
				wrong("%q: replay: %w", r, err)
			}
		}
		if r.Ranks < 0 || r.Ranks > maxKVRanks {
			wrong("%q: ranks=%d is not between 1 and %d", r, r.Ranks, maxKVRanks)
		}
	}
	return faults
}

// splitTCP takes an address of the form tcp://HOST:PORT apart.
func splitTCP(address string) (host string, port int, err error) {
	rest, ok := strings.CutPrefix(address, "tcp://")
	if !ok {
		return "", 0, fmt.Errorf("%q is not tcp://HOST:PORT", address)
	}
	host, word, err := net.SplitHostPort(rest)
	if err != nil || host == "" {
		return "", 0, fmt.Errorf("%q is not tcp://HOST:PORT", address)
	}
	if port, err = strconv.Atoi(word); err != nil || port < 1 || port > 65535 {
		return "", 0, fmt.Errorf("port %s of %q is not between 1 and 65535", word, address)
	}
	if isWildcard(host) {
		return "", 0, fmt.Errorf("%q is where an engine listens, not where it can be reached", address)
	}
	return host, port, nil
}

// A KVEndpoint is where an engine's rank publishes its KV events.
type KVEndpoint struct {
	Rank           int
	Events, Replay string // tcp://host:port; Replay is empty if it cannot
	Topic          string
}

// endpoints returns the endpoints of an engine, one for each rank.
func (r KVRule) endpoints() []KVEndpoint {
	all := make([]KVEndpoint, 0, max(r.Ranks, 1))
	for rank := range max(r.Ranks, 1) {
		e := KVEndpoint{Rank: rank, Events: nthPort(r.Events, rank), Topic: r.Topic}
		if r.Replay != "" {
			e.Replay = nthPort(r.Replay, rank)
		}
		all = append(all, e)
	}
	return all
}

// nthPort returns an address whose port is n higher.
func nthPort(address string, n int) string {
	host, port, err := splitTCP(address)
	if err != nil {
		return address
	}
	return "tcp://" + net.JoinHostPort(host, strconv.Itoa(port+n))
}

// kvEndpoints returns where the engine of w is to be listened to: what its
// operator says, else what the engine says of itself.
func (c *Config) kvEndpoints(w *Worker) []KVEndpoint {
	off := false
	for _, r := range c.KVEvents {
		if r.All == "" && r.Worker == w.URL {
			return r.endpoints()
		}
		off = off || r.All == "off"
	}
	if off || w.facts == nil {
		return nil
	}
	return w.facts.KVEvents
}

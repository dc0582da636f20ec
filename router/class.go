package router

import (
	"hash/maphash"
	"strconv"
	"strings"

	"pdrouter/metrics"
	"pdrouter/transfer"
)

// A Class is the priority of a request: of those that wait, the higher goes
// first. The classes are smg's.
type Class int

// The classes.
const (
	Bulk Class = iota - 1
	Default
	Interactive
	System
)

// ClassNames returns the names of all classes, the highest first.
func ClassNames() []string {
	names := classNames()
	return names[:]
}

func classNames() [System - Bulk + 1]string {
	return [...]string{"system", "interactive", "default", "bulk"}
}

// String returns the name of the class.
func (c Class) String() string { return classNames()[System-c] }

// ParseClass returns the class that a client means by a word, in any case, or by
// a number, of which those that are out of range count as the nearest one.
func ParseClass(word string) (c Class, ok bool) {
	word = strings.TrimSpace(word)
	for i, name := range classNames() {
		if strings.EqualFold(word, name) {
			return System - Class(i), true
		}
	}
	n, err := strconv.ParseInt(word, 10, 32)
	return nearest(n), err == nil
}

func nearest(n int64) Class { return Class(min(max(n, int64(Bulk)), int64(System))) }

// classOf returns the class of a request: what it claims, up to Config.MaxClass.
// A header goes before the body, because a gateway can set it.
func (h *Handler) classOf(c *call, req *transfer.Request) Class {
	class, claim := claimOf(c, req)
	if claim == "" {
		return min(Default, c.cfg.maxClass)
	}
	if class > c.cfg.maxClass {
		class, claim = c.cfg.maxClass, metrics.Capped
	}
	h.met.Claimed(claim)
	return class
}

// claimOf returns the class that a request claims; the claim is empty if it does
// not.
func claimOf(c *call, req *transfer.Request) (Class, metrics.Claim) {
	for _, name := range [...]string{"X-Priority", "X-Smg-Priority"} {
		values := c.r.Header[name]
		if len(values) == 0 {
			continue
		}
		if class, ok := ParseClass(values[0]); ok {
			return class, metrics.Honoured
		}
		return Default, metrics.Unknown
	}
	n, ok := req.Priority()
	if !ok {
		return Default, ""
	}
	if lowFirst(c.dialect) {
		n = -n
	}
	return nearest(n), metrics.Honoured
}

// lowFirst reports whether the engines of a dialect take the lower priority in a
// body first. vLLM does (vllm/v1/core/sched/request_queue.py), SGLang takes the
// higher one unless it was started with --schedule-low-priority-values-first.
func lowFirst(dialect string) bool { return dialect == "vllm-nixl" }

// tenantOf returns whose request it is: a hash of the API key that it was sent
// with, which means nothing outside this process; 0: it has none.
func (h *Handler) tenantOf(c *call) uint64 {
	values := c.r.Header["Authorization"]
	if len(values) == 0 {
		return 0
	}
	scheme, key, _ := strings.Cut(values[0], " ")
	if key = strings.TrimSpace(key); key == "" || !strings.EqualFold(scheme, "Bearer") {
		return 0
	}
	return max(maphash.String(h.seed, key), 1)
}

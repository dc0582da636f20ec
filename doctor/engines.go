package doctor

import (
	"errors"
	"fmt"
	"net/http"
	"strings"

	"pdrouter/survey"
)

// engines finds whether each engine is there, and what it was configured to be.
func (c *Case) engines(workers []examined) []Finding {
	found := &chart{check: Engines}
	for _, w := range workers {
		if w.engine == nil {
			c.unheard(found, w)
			continue
		}
		before := len(found.all)
		c.contradictions(found, w)
		if len(found.all) == before {
			found.note(OK, w.name(), "", "%s", describe(w.engine))
		}
	}
	return found.all
}

// unheard finds why an engine has not said what it is.
func (c *Case) unheard(found *chart, w examined) {
	refused, isStatus := errors.AsType[*survey.StatusError](w.err)
	switch {
	case isStatus && (refused.Status == http.StatusUnauthorized || refused.Status == http.StatusForbidden):
		found.note(Fault, w.name(), "give its key with --worker-api-key, or as api-key of the worker in the file", "it asks for a key (%v)", w.err)
	case errors.Is(w.err, survey.ErrUnknown) && c.Dialect != "auto":
		found.note(Unknown, w.name(), "", "%v; what it is cannot be compared with --dialect %s", w.err, c.Dialect)
	case errors.Is(w.err, survey.ErrUnknown):
		found.note(Fault, w.name(), "look whether the URL is that of an engine; name its dialect with --dialect if it is", "%v", w.err)
	case isStatus:
		found.note(Fault, w.name(), "look into the engine's log", "%v", w.err)
	default:
		found.note(Fault, w.name(), "start the engine, or see which port it has (ss -ltnp); remove the worker if it is not to come", "%v", w.err)
	}
}

// contradictions finds what an engine is and should not be.
func (c *Case) contradictions(found *chart, w examined) {
	e := w.engine
	switch {
	case !e.HandsOver && e.Kind == survey.VLLM && !e.Metrics:
		found.note(Fault, w.name(), "start it without --disable-log-stats", "it has no metrics, and nothing else tells how vLLM hands over")
	case !e.HandsOver && e.Kind == survey.VLLM:
		found.note(Fault, w.name(), `start it with --kv-transfer-config '{"kv_connector":"NixlConnector",...}'`, "it runs without NixlConnector, so it hands over to nobody")
	case !e.HandsOver:
		found.note(Fault, w.name(), "start it with --disaggregation-mode "+w.Role, "it runs with --disaggregation-mode %s, so it hands over to nobody", e.Role)
	case e.Role != "" && e.Role != w.Role:
		found.note(Fault, w.name(), fmt.Sprintf("name it with --%s, or start it with --disaggregation-mode %s", e.Role, w.Role), "it is configured for %s, and is a %s engine", w.Role, e.Role)
	}
	if dialect := dialectOf(e); c.Dialect != "auto" && dialect != c.Dialect {
		found.note(Fault, w.name(), "say --dialect "+dialect+", or auto", "--dialect is %s, and it speaks %s", c.Dialect, dialect)
	}
	if len(e.Models) == 0 {
		found.note(Fault, w.name(), "look into the engine's log", "it serves no model (/v1/models)")
	}
	if !e.Metrics && e.HandsOver {
		found.note(Warning, w.name(), "start it with --enable-metrics", "it has no metrics: how full its KV cache is, and that it was restarted, is seen late or not at all")
	}
}

func dialectOf(e *survey.Engine) string {
	if e.Kind == survey.VLLM {
		return "vllm-nixl"
	}
	return e.Kind
}

// describe says in one line what an engine is.
func describe(e *survey.Engine) string {
	parts := []string{strings.TrimSpace(e.Kind + " " + e.Version)}
	if e.Role != "" {
		parts = append(parts, e.Role)
	}
	parts = append(parts, strings.Join(e.Models, ", "))
	if e.PageSize > 0 {
		parts = append(parts, fmt.Sprintf("page size %d", e.PageSize))
	}
	if e.KVDtype != "" {
		parts = append(parts, "KV "+e.KVDtype)
	}
	if e.TP > 0 {
		parts = append(parts, fmt.Sprintf("tp %d", e.TP))
	}
	if e.Backend != "" {
		parts = append(parts, "by "+e.Backend)
	}
	return strings.Join(parts, ", ")
}

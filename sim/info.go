package sim

import (
	"encoding/json"
	"net/http"
	"time"
)

// serveInfo serves all that does not generate.
func (e *Engine) serveInfo(w http.ResponseWriter, r *http.Request) {
	if r.URL.Path == "/metrics" && !e.cfg.NoMetrics {
		w.Header().Set("Content-Type", "text/plain; version=1.0.0; charset=utf-8")
		_, _ = w.Write(e.exposition())
		return
	}
	if r.URL.Path == "/v1/models" {
		answerJSON(w, http.StatusOK, e.models())
		return
	}
	served := false
	if e.cfg.Dialect == SGLang {
		served = e.serveSGLangInfo(w, r)
	} else {
		served = e.serveVLLMInfo(w, r)
	}
	if !served {
		answerJSON(w, http.StatusNotFound, []byte(`{"detail":"Not Found"}`))
	}
}

// models returns the body of /v1/models.
func (e *Engine) models() []byte {
	now := time.Now().Unix()
	owner := "sglang"
	if e.cfg.Dialect == VLLMNixl {
		owner = "vllm"
	}
	b := appendJSON([]byte(`{"object":"list","data":[{"id":`), e.cfg.Model)
	b = appendField(b, `,"object":"model","created":`, int(now))
	b = append(b, `,"owned_by":"`+owner+`","root":`...)
	b = appendJSON(b, e.cfg.Model)
	b = appendField(b, `,"parent":null,"max_model_len":`, e.cfg.ContextLength)
	if e.cfg.Dialect == VLLMNixl {
		b = append(b, `,"permission":[{"id":"modelperm-`+randomHex(8)+`","object":"model_permission"`...)
		b = appendField(b, `,"created":`, int(now))
		b = append(b, `,"allow_create_engine":false,"allow_sampling":true,"allow_logprobs":true,`+
			`"allow_search_indices":false,"allow_view":true,"allow_fine_tuning":false,`+
			`"organization":"*","group":null,"is_blocking":false}]`...)
	}
	return append(b, "}]}"...)
}

// serveSGLangInfo serves SGLang's own endpoints.
func (e *Engine) serveSGLangInfo(w http.ResponseWriter, r *http.Request) bool {
	switch r.URL.Path {
	case "/health", "/health_generate":
		w.Header().Set("Content-Length", "0")
		w.WriteHeader(http.StatusOK)
	case "/model_info", "/get_model_info":
		answerJSON(w, http.StatusOK, e.modelInfo())
	case "/server_info", "/get_server_info":
		answerJSON(w, http.StatusOK, e.serverInfo())
	case "/v1/loads":
		answerJSON(w, http.StatusOK, e.loads())
	case "/abort_request":
		e.serveAbort(w, r)
	case "/flush_cache":
		e.serveFlush(w)
	case "/tokenize", "/v1/tokenize", "/detokenize", "/v1/detokenize":
		e.serveTokens(w, r)
	default:
		return false
	}
	return true
}

// serveAbort serves /abort_request.
func (e *Engine) serveAbort(w http.ResponseWriter, r *http.Request) {
	var body struct {
		RID      string `json:"rid"`
		AbortAll bool   `json:"abort_all"`
	}
	if err := json.NewDecoder(r.Body).Decode(&body); err != nil {
		answerJSON(w, http.StatusBadRequest, []byte(`{"error":{"message":"Invalid request"}}`))
		return
	}
	e.live.abort(body.RID, body.AbortAll)
	w.Header().Set("Content-Length", "0")
	w.WriteHeader(http.StatusOK)
}

// serveFlush serves /flush_cache.
func (e *Engine) serveFlush(w http.ResponseWriter) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	if !e.sched.flush() {
		w.WriteHeader(http.StatusBadRequest)
		_, _ = w.Write([]byte("Cache not flushed because there are running requests.\n"))
		return
	}
	_, _ = w.Write([]byte("Cache flushed.\nPlease check backend logs for more details. " +
		"(When there are running or waiting requests, the operation will not be performed.)\n"))
}

// serveVLLMInfo serves vLLM's own endpoints.
func (e *Engine) serveVLLMInfo(w http.ResponseWriter, r *http.Request) bool {
	switch r.URL.Path {
	case "/health", "/ping":
		w.Header().Set("Content-Length", "0")
		w.WriteHeader(http.StatusOK)
	case "/version":
		answerJSON(w, http.StatusOK, []byte(`{"version":"0.32.0"}`))
	case "/tokenize", "/detokenize":
		e.serveTokens(w, r)
	default:
		return false
	}
	return true
}

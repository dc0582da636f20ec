package router

import (
	"bytes"
	"net/http"
	"strings"
)

// speaksAnthropic reports whether who asks for path parses errors as Anthropic's
// API has them, whose paths begin with /v1/messages.
func speaksAnthropic(path string) bool {
	return path == "/v1/messages" || strings.HasPrefix(path, "/v1/messages/")
}

// anthropicKind returns the word for the error's type, in Anthropic's vocabulary.
func (e *Error) anthropicKind() string {
	switch e.Status {
	case http.StatusUnauthorized:
		return "authentication_error"
	case http.StatusForbidden:
		return "permission_error"
	case http.StatusNotFound:
		return "not_found_error"
	case http.StatusRequestEntityTooLarge:
		return "request_too_large"
	case http.StatusTooManyRequests:
		return "rate_limit_error"
	case http.StatusServiceUnavailable:
		return "overloaded_error"
	}
	if e.Status >= http.StatusInternalServerError {
		return "api_error"
	}
	return "invalid_request_error"
}

// anthropicEnvelope returns the error as Anthropic's clients parse it.
func (e *Error) anthropicEnvelope() []byte {
	var b bytes.Buffer
	b.WriteString(`{"type":"error","error":{"type":"` + e.anthropicKind() + `","message":`)
	writeJSONString(&b, e.Message)
	b.WriteString(`}}`)
	return b.Bytes()
}

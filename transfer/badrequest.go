package transfer

import "fmt"

// A BadRequest is a body that the client has to mend. It is answered with
// status 400 before any worker is touched.
type BadRequest struct {
	Message string // for the person who sent the request
	Param   string // the key at fault, or ""
	Code    string // stable name in the API, one of the Code constants
}

// What is wrong with a body.
const (
	CodeJSON        = "json_parse_error"    // not one JSON object in UTF-8
	CodeTooLong     = "request_too_large"   // of 2 GiB or more
	CodeDuplicate   = "duplicate_key"       // a key that we read is there twice
	CodeType        = "invalid_type"        // a key that we read has a value of the wrong type
	CodeN           = "unsupported_n"       // more than one answer for a prompt
	CodeBatch       = "unsupported_batch"   // more prompts than the dialect or we can carry
	CodeUnsupported = "unsupported_in_pd"   // a key that cannot work with prefill and decode apart
	CodeEndpoint    = "unsupported_surface" // the endpoint is not one of the dialect's (status 501)
)

// Error implements error.
func (e *BadRequest) Error() string { return e.Message }

func badJSON(s *scanner) *BadRequest {
	return &BadRequest{
		Message: fmt.Sprintf("the body is not valid JSON: %s, at byte %d", s.why, s.at),
		Code:    CodeJSON,
	}
}

func badType(name string, at int, want string) *BadRequest {
	return &BadRequest{
		Message: fmt.Sprintf("%q must be %s, at byte %d", name, want, at),
		Param:   name,
		Code:    CodeType,
	}
}

func duplicate(name string, at int) *BadRequest {
	return &BadRequest{
		Message: fmt.Sprintf("%q is given twice, at byte %d", name, at),
		Param:   name,
		Code:    CodeDuplicate,
	}
}

// unsupported is a request that no pair of a dialect can serve.
func unsupported(what, param, code, dialect string) *BadRequest {
	return &BadRequest{
		Message: fmt.Sprintf("%s is not supported with prefill and decode apart (dialect %s)", what, dialect),
		Param:   param,
		Code:    code,
	}
}

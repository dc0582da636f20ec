package transfer

// An Endpoint is a route of the engines whose requests are handed off.
type Endpoint uint8

// The endpoints.
const (
	Chat Endpoint = iota
	Completions
	Generate // SGLang's own
)

// endpoints is how many there are.
const endpoints = 3

// Path returns the endpoint's path, the same for clients and engines.
func (e Endpoint) Path() string {
	switch e {
	case Completions:
		return "/v1/completions"
	case Generate:
		return "/generate"
	case Chat:
	}
	return "/v1/chat/completions"
}

package transfer

// An Aborter is a Dialect whose engines have to be told that nobody waits for a
// request. The others notice when its connection is closed.
type Aborter interface {
	// Abort returns the requests that end what an attempt left behind at one
	// engine, each on its own.
	Abort(req *Request, a Attempt) []Leg
}

// Abort implements Aborter. A closed connection is noticed after up to 3 s; an
// abort ends a leg within 20 ms (seen with SGLang 0.5.23). The engine matches
// by prefix but drops names that it does not know as they are, so each prompt
// of a batch is named.
func (SGLang) Abort(req *Request, a Attempt) []Leg {
	legs := make([]Leg, max(1, req.Batch()))
	for i := range legs {
		body := append(appendText([]byte(`{"rid":`), a.RID(req, i)), `,"abort_all":false}`...)
		legs[i] = Leg{Path: "/abort_request", Body: [][]byte{body}, Length: int64(len(body))}
	}
	return legs
}

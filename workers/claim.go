package workers

// A claim is what one decode lease takes of its worker's KV cache.
type claim struct {
	habits *habits
	place  int // among the ledger's claims
	stage  stage

	bytes  int     // of the prompt
	prompt float64 // tokens
	limit  float64 // of an answer's tokens

	// answers is how many there are: a batch has one for each of its prompts,
	// which count as one. All grow at once, and for as long as they do.
	answers float64

	granted float64 // when
	began   float64 // by the ledger's steps, when the answer had no token
	since   float64 // when it began
	bin     int     // of lengths, that the answer is known to have come to
	course  course  // what the ledger's outlook has of it
}

// A stage is how far a claim has come.
type stage uint8

const (
	claimNone    stage = iota
	claimGranted       // its engine knows nothing of it
	claimSent          // its engine has been told, and gives the prompt blocks soon
	claimBegun         // its answer has begun
)

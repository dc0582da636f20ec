package record

import "time"

// A View is a record as it was at one moment.
type View struct {
	Number uint64 // counts requests since the daemon's start
	ID     string // as the client, or else the router, named the request

	Asked                   // what it asks for; most of it is empty until its body has been scanned
	Phase Phase             // the one that it is in, or ended in
	At    [Phases]time.Time // when it reached each phase first; its last attempt counts from Prefill on
	Ended time.Time         // zero: it runs

	Attempts []Attempt // the last is under way, if the request runs

	Lacked string // what it waited for: slots, prefill or decode; empty: it did not wait

	Status  int    // that the client got; 499 if it got none
	Code    string // of the error; empty: it was answered in full
	Reason  string // the error, in full
	Message string // the error, as the client was told

	Counted                 // what engines said of it
	Events    int           // reads of the stream that brought tokens
	LastToken time.Time     // when the last of them came
	Longest   time.Duration // between two of them
	Bytes     int64         // of the answer
}

// Asked is what a request asks for.
type Asked struct {
	Model, Endpoint, Dialect, Class string

	Streaming              bool
	MaxTokens              int // 0: the client does not say
	BodyBytes, PromptBytes int
}

// Counted is what engines said that a request had, in tokens; -1 where they did
// not say.
type Counted struct {
	PromptTokens, CachedTokens, AnswerTokens int64

	// Predicted is what of the prompt prefill was believed to have in its cache.
	Predicted int64
}

// An Attempt is one try of a request on one pair.
type Attempt struct {
	Prefill, Decode       string // IDs of the workers
	PrefillURL, DecodeURL string
	Room                  uint64  // 0: its dialect has none
	Reserved              float64 // tokens that the ledger expects it to need on decode at the most; NaN: it keeps no account

	Leased    time.Time // and begun
	Prefilled time.Time // prefill's verdict came
	Sent      time.Time // decode's leg was sent
	First     time.Time // the first token came
	Ended     time.Time

	Leg    string // that failed first; empty: none did
	Code   string // of the error that ended it; empty: it was well
	Reason string // the error, in full

	Choice Choice
}

// A Choice is how a pair came to be chosen.
type Choice struct {
	Reason       string    // by what the prefill worker was chosen
	DecodeReason string    // likewise the decode worker
	Units        [2]string // what Cost is in, of prefill and of decode; empty: nothing was compared by a number
	Waited       time.Duration
	At           time.Time // when the request came to be served: after it had waited, before a pair was chosen

	Blocks     int // of the prompt, which Candidates are believed to hold some of; 0: it has no whole one, or the policy does not look
	BlockBytes int // length of one

	Candidates []Candidate // of very many, those that were nearest to being chosen
	Unlisted   int         // how many more there were
}

// A Candidate is a worker as the policy saw it.
type Candidate struct {
	Worker   string // its ID
	Role     string
	Chosen   bool
	InFlight int // requests that it had

	Blocks int           // of the prompt, believed to be in its cache; below 0: that was not asked
	Wait   time.Duration // behind what was there before
	Work   time.Duration // of the request itself

	// Cost is what was compared, in the unit that the Choice has for the role;
	// the least was chosen, among nearly equal ones by other reasons. NaN: there
	// was no number.
	Cost float64

	LeftOut string // why it could not be chosen; empty: it could
}

// Name returns what a phase is called for this request. Of an answer in JSON
// nothing is seen before its end, so that it cannot be told when the hand-off is
// over and decode generates.
func (v *View) Name(p Phase) string {
	if p == HandOff && !v.Streaming {
		return "decode"
	}
	return p.String()
}

// Running reports whether the request had not ended.
func (v *View) Running() bool { return v.Ended.IsZero() }

// Since returns the time from the request's head to t, or 0 if t has not come.
func (v *View) Since(t time.Time) time.Duration {
	if t.IsZero() {
		return 0
	}
	return t.Sub(v.At[Accept])
}

// TTFT returns the time to the first token; 0: none came, or the answer was JSON.
func (v *View) TTFT() time.Duration {
	if !v.Streaming {
		return 0
	}
	return v.Since(v.At[Relay])
}

// ITL returns the mean time between reads that brought tokens; 0: it is not
// known.
func (v *View) ITL() time.Duration {
	if v.Events < 2 {
		return 0
	}
	return v.LastToken.Sub(v.At[Relay]) / time.Duration(v.Events-1)
}

// Took returns for how long the request was in a phase until now, and whether it
// has reached it. A phase ends when any later one is reached: decode's first token
// may come before prefill's verdict, and then the hand-off took no time.
func (v *View) Took(p Phase, now time.Time) (time.Duration, bool) {
	from := v.At[p]
	if from.IsZero() {
		return 0, false
	}
	until := now
	if !v.Running() {
		until = v.Ended
	}
	for _, next := range v.At[p+1:] {
		if !next.IsZero() && next.Before(until) {
			until = next
		}
	}
	return max(until.Sub(from), 0), true
}

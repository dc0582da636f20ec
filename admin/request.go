package admin

import (
	"strconv"
	"time"

	"pdrouter/record"
	"pdrouter/workers"
)

// A RequestInfo is one request as the API shows it. Times are in seconds since
// the request's head came, which Started gives absolutely. What is not known, or
// has not come, is null.
type RequestInfo struct {
	ID      string    `json:"id"`
	Number  uint64    `json:"number"`
	Running bool      `json:"running"`
	Phase   string    `json:"phase"` // the one that it is in, or ended in
	Started time.Time `json:"started"`
	Age     float64   `json:"age_seconds"` // until it ended, if it has

	Model       string `json:"model"`
	Endpoint    string `json:"endpoint"`
	Dialect     string `json:"dialect"`
	Class       string `json:"class"`
	Streaming   bool   `json:"streaming"`
	MaxTokens   *int   `json:"max_tokens"`
	BodyBytes   int    `json:"body_bytes"`
	PromptBytes int    `json:"prompt_bytes"`

	Pair     *PairInfo `json:"pair"` // of the last attempt
	Room     *string   `json:"room"` // likewise; a string, because not every reader of JSON has 64 bits
	Reserved *float64  `json:"kv_reserved_tokens"`
	Lacks    *string   `json:"lacks"`  // what it waits for now
	Lacked   *string   `json:"lacked"` // what it lacked when it came, if it had to wait for its last pair

	Phases []PhaseInfo `json:"phases"`

	TTFT       *float64 `json:"ttft_seconds"`
	ITL        *float64 `json:"itl_seconds"`
	Longest    *float64 `json:"longest_gap_seconds"`
	Silent     *float64 `json:"silent_seconds"` // since the last token, of a stream that runs
	TokenReads int      `json:"token_reads"`    // reads of the stream that brought tokens
	Bytes      int64    `json:"answer_bytes"`

	PromptTokens    *int64 `json:"prompt_tokens"`
	CachedTokens    *int64 `json:"cached_tokens"`
	PredictedTokens *int64 `json:"predicted_cached_tokens"`
	AnswerTokens    *int64 `json:"answer_tokens"`

	Status  *int   `json:"status"`
	Code    string `json:"code"`    // of the error; empty: none
	Reason  string `json:"reason"`  // the error, in full
	Message string `json:"message"` // the error, as the client was told

	Attempts []AttemptInfo `json:"attempts"`
}

// A PairInfo is the two workers of an attempt.
type PairInfo struct {
	Prefill    string `json:"prefill"`
	Decode     string `json:"decode"`
	PrefillURL string `json:"prefill_url"`
	DecodeURL  string `json:"decode_url"`
}

// A PhaseInfo is a phase that the request has reached.
type PhaseInfo struct {
	Phase   string  `json:"phase"`
	At      float64 `json:"at_seconds"`
	Seconds float64 `json:"seconds"` // until now, if it is in it
}

// An AttemptInfo is one try on one pair.
type AttemptInfo struct {
	PairInfo
	Room     *string  `json:"room"`
	Reserved *float64 `json:"kv_reserved_tokens"`

	Leased    float64  `json:"leased_seconds"`
	Prefilled *float64 `json:"prefilled_seconds"`
	Sent      *float64 `json:"decode_sent_seconds"`
	First     *float64 `json:"first_token_seconds"`
	Ended     *float64 `json:"ended_seconds"`

	Leg    string `json:"failed_leg"`
	Code   string `json:"code"`
	Reason string `json:"reason"`

	Choice ChoiceInfo `json:"choice"`
}

// A ChoiceInfo is how the pair came to be chosen.
type ChoiceInfo struct {
	Waited     float64         `json:"waited_seconds"`
	Prefill    RoleChoice      `json:"prefill"`
	Decode     RoleChoice      `json:"decode"`
	Blocks     *int            `json:"prompt_blocks"`
	BlockBytes *int            `json:"block_bytes"`
	Candidates []CandidateInfo `json:"candidates"`
	Unlisted   int             `json:"unlisted"`
}

// A RoleChoice is by what the worker of one role was chosen.
type RoleChoice struct {
	Reason string  `json:"reason"`
	Unit   *string `json:"cost_unit"`
}

// A CandidateInfo is a worker as the choice saw it.
type CandidateInfo struct {
	Worker   string   `json:"worker"`
	Role     string   `json:"role"`
	Chosen   bool     `json:"chosen"`
	LeftOut  *string  `json:"left_out"`
	InFlight int      `json:"in_flight"`
	Blocks   *int     `json:"held_blocks"`
	Wait     *float64 `json:"wait_seconds"`
	Work     *float64 `json:"work_seconds"`
	Cost     *float64 `json:"cost"`
}

// requestInfo returns what there is to say of a request now.
func requestInfo(v *record.View, now time.Time) RequestInfo {
	if !v.Running() {
		now = v.Ended
	}
	r := RequestInfo{
		ID: v.ID, Number: v.Number, Running: v.Running(), Phase: v.Name(v.Phase), Started: v.At[record.Accept], Age: v.Since(now).Seconds(),
		Model: v.Model, Endpoint: v.Endpoint, Dialect: v.Dialect, Class: v.Class, Streaming: v.Streaming,
		MaxTokens: unless0(v.MaxTokens), BodyBytes: v.BodyBytes, PromptBytes: v.PromptBytes, Lacked: unless0(v.Lacked),
		TTFT: unless0(v.TTFT().Seconds()), TokenReads: v.Events, Bytes: v.Bytes,
		PromptTokens: counted(v.PromptTokens), CachedTokens: counted(v.CachedTokens), PredictedTokens: counted(v.Predicted), AnswerTokens: counted(v.AnswerTokens),
		Status: unless0(v.Status), Code: v.Code, Reason: v.Reason, Message: v.Message,
		Phases: phasesOf(v, now), Attempts: []AttemptInfo{},
	}
	if v.Events > 1 {
		r.ITL, r.Longest = seconds(v.ITL()), seconds(v.Longest)
	}
	if v.Running() && v.Events > 0 {
		r.Silent = seconds(now.Sub(v.LastToken))
	}
	for i := range v.Attempts {
		r.Attempts = append(r.Attempts, attemptInfo(v, &v.Attempts[i]))
	}
	if n := len(r.Attempts); n > 0 {
		last := &r.Attempts[n-1]
		r.Pair, r.Room, r.Reserved = &last.PairInfo, last.Room, last.Reserved
	}
	return r
}

func phasesOf(v *record.View, now time.Time) []PhaseInfo {
	all := []PhaseInfo{}
	for p := record.Accept; p <= record.Relay; p++ {
		if took, reached := v.Took(p, now); reached {
			all = append(all, PhaseInfo{v.Name(p), v.Since(v.At[p]).Seconds(), took.Seconds()})
		}
	}
	return all
}

func attemptInfo(v *record.View, a *record.Attempt) AttemptInfo {
	at := func(t time.Time) *float64 {
		if t.IsZero() {
			return nil
		}
		return seconds(v.Since(t))
	}
	x := AttemptInfo{
		PairInfo: PairInfo{a.Prefill, a.Decode, a.PrefillURL, a.DecodeURL}, Reserved: known(a.Reserved),
		Leased: v.Since(a.Leased).Seconds(), Prefilled: at(a.Prefilled), Sent: at(a.Sent), First: at(a.First), Ended: at(a.Ended),
		Leg: a.Leg, Code: a.Code, Reason: a.Reason,
	}
	if a.Room != 0 {
		room := strconv.FormatUint(a.Room, 10)
		x.Room = &room
	}
	c := &a.Choice
	x.Choice = ChoiceInfo{
		Waited:  c.Waited.Seconds(),
		Prefill: RoleChoice{c.Reason, unless0(c.Units[workers.Prefill])}, Decode: RoleChoice{c.DecodeReason, unless0(c.Units[workers.Decode])},
		Blocks: unless0(c.Blocks), BlockBytes: unless0(c.BlockBytes), Candidates: []CandidateInfo{}, Unlisted: c.Unlisted,
	}
	for i := range c.Candidates {
		x.Choice.Candidates = append(x.Choice.Candidates, candidateInfo(&c.Candidates[i]))
	}
	return x
}

// candidateInfo returns what there is to say of a candidate. A wait and work are
// known of prefill workers that were asked how much of the prompt they hold.
func candidateInfo(c *record.Candidate) CandidateInfo {
	x := CandidateInfo{Worker: c.Worker, Role: c.Role, Chosen: c.Chosen, LeftOut: unless0(c.LeftOut), InFlight: c.InFlight, Cost: known(c.Cost)}
	if c.Blocks >= 0 {
		blocks := c.Blocks
		x.Blocks = &blocks
		if c.Role == workers.Prefill.String() {
			x.Wait, x.Work = seconds(c.Wait), seconds(c.Work)
		}
	}
	return x
}

func seconds(d time.Duration) *float64 {
	s := d.Seconds()
	return &s
}

// unless0 returns a value, if it is one.
func unless0[T comparable](v T) *T {
	var zero T
	if v == zero {
		return nil
	}
	return &v
}

// counted returns a number of tokens, if engines said it.
func counted(n int64) *int64 {
	if n < 0 {
		return nil
	}
	return &n
}

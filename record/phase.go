package record

// A Phase is how far a request has come.
type Phase int

// The phases, in their order. A further attempt begins again with Admit.
const (
	Accept  Phase = iota // its body is being read and scanned
	Admit                // it waits for a pair
	Prefill              // prefill computes its prompt
	HandOff              // prefill has answered; decode has sent no token
	Relay                // tokens come
)

// Phases is how many there are.
const Phases = int(Relay) + 1

// String implements fmt.Stringer.
func (p Phase) String() string {
	return [...]string{"accept", "admit", "prefill", "hand-off", "relay"}[p]
}

package router

import (
	"fmt"
	"net/http"
	"strconv"
	"strings"
)

// A fault is one way in which an engine may be sick, with what follows when it
// is a request's first failure. What it does to the other leg, and to the next
// attempt, is derived (matrix_test.go).
type fault struct {
	name    string
	do      func(askedFor) deed // nil: nothing listens
	prefill sequel              // of a prefill leg, which is JSON always
	json    sequel              // of a decode leg
	stream  sequel              // of a decode leg that is one
}

// A sequel is what follows from a fault in one leg.
type sequel struct {
	never  string // why there is no such cell
	shape  shape
	status int    // that the client is told, if there is no other attempt
	code   string // likewise; what begins with _ follows the leg's role
	again  bool   // another attempt is due
	blame  string // what the leg's lease is told
	told   bool   // an engine that has to be told is told that nobody waits
	taken  bool   // decode may have taken the hand-off over
	late   bool   // only a limit of time ends it
	idle   bool   // likewise, that of a stream which has begun
}

// A shape is what a client's answer looks like.
type shape uint8

const (
	whole    shape = iota // the answer, byte for byte
	envelope              // our error
	theirs                // the engine's error, byte for byte
	cut                   // the whole events that came, and an error event of ours in place of [DONE]
	asItIs                // the stream as it came, which has the engine's own error in it
	unread                // the stream as it came: what it says is not ours to judge (I5)
)

// sound is no fault: the client has all of it.
func sound() sequel { return sequel{shape: whole, status: 200, blame: "ok", taken: true} }

// lost is a connection that could not be made, or was lost.
func lost() sequel {
	return sequel{shape: envelope, status: 502, code: "_request_failed", again: true, blame: "unreachable", told: true}
}

// broke is an answer that broke off, or was none.
func broke() sequel {
	s := lost()
	s.blame = "failed"
	return s
}

// nonsensical is a whole answer that makes no sense.
func nonsensical() sequel {
	return sequel{shape: envelope, status: 502, code: "_invalid_answer", again: true, blame: "failed", taken: true}
}

// refuses is what the engine says of the client's own request.
func refuses(status int) sequel {
	return sequel{shape: theirs, status: status, code: "_upstream_error", blame: "ok"}
}

// impatient is a 408, which is nobody's fault and may go away.
func impatient() sequel {
	s := refuses(http.StatusRequestTimeout)
	s.again = true
	return s
}

// busy is backpressure.
func busy(status int) sequel {
	s := sequel{shape: envelope, status: status, code: "_upstream_error", again: true, blame: "busy"}
	if status < 500 {
		s.shape = theirs
	}
	return s
}

// fails is an engine that says that it failed, and is blamed as given.
func fails(status int, blame string) sequel {
	return sequel{shape: envelope, status: status, code: "_upstream_error", again: true, blame: blame}
}

// tooLate is silence that a limit of time ends. It is not tried again: the
// client has waited for as long as it was to wait. Whose fault it is depends on
// who has done his part.
func tooLate() sequel {
	return sequel{shape: envelope, status: http.StatusGatewayTimeout, told: true, late: true}
}

// tornOff is a stream that ends too early for a client that reads it already.
func tornOff(blame string) sequel {
	return sequel{shape: cut, status: 200, code: "upstream_disconnected", blame: blame, told: true, taken: true}
}

// unsent returns s for a leg that never reached its engine.
func (s sequel) unsent() sequel {
	s.told = false
	return s
}

// begun returns s for a leg whose answer had begun with a 200.
func (s sequel) begun() sequel {
	s.taken = true
	return s
}

// ended returns s for a leg that its engine has ended by itself.
func (s sequel) ended() sequel {
	s.told, s.taken = false, true
	return s
}

// open returns s for a leg that its engine may still be at work on.
func (s sequel) open() sequel {
	s.told = true
	return s
}

// silent returns s for a leg that falls silent when the stream has begun.
func (s sequel) silent() sequel {
	s.idle = true
	return s
}

func never(reason string) sequel { return sequel{never: reason} }

// Reasons for which there is no cell.
const (
	noFrames  = "a JSON answer has no frames"
	noJSON    = "a stream is no JSON answer"
	noStreams = "JSON is what was asked for"
)

// alike returns a fault that is the same for both legs and both forms.
func alike(name string, do func(askedFor) deed, s sequel) fault {
	return fault{name, do, s, s, s}
}

// A chapter is faults of one sort, as the page shows them.
type chapter struct {
	title  string
	faults []fault
}

// chapters is the matrix without what is derived.
func chapters() []chapter {
	return []chapter{
		{"Connection, head and time", headFaults()},
		{"Status", statusFaults()},
		{"Answers of status 200 that are none", answerFaults()},
		{"An engine that dies in its answer", placeFaults("death after ", place.dying)},
		{"An answer that ends too early, but cleanly", placeFaults("clean end after ", place.ending)},
		{"An engine that falls silent in its answer", placeFaults("stall after ", place.stalling)},
	}
}

func headFaults() []fault {
	return []fault{
		alike("refused connection", nil, lost().unsent()),
		alike("reset before the head", does("", resets), lost()),
		alike("close before the head", does("", closes), lost()),
		alike("reset in the head", does("HTTP/1.1 200 OK\r\nContent-Ty", resets), lost()),
		alike("close in the head", does("HTTP/1.1 200 OK\r\nContent-Ty", closes), lost()),
		alike("reset in the body", resetInBody, lost().begun()),
		{"reset after a token", resetAfterToken, never(noFrames), never(noFrames), tornOff("unreachable")},
		alike("head of 1 MB", does("HTTP/1.1 200 OK\r\nX-Filler: "+strings.Repeat("x", 1<<20)+"\r\n\r\n", closes), broke()),
		alike("garbage head", does("\x16\x03\x01 this is not HTTP\r\n\r\n", closes), broke()),
		alike("slow head", slowHead, sound()),
		alike("head without end", does("HTTP/1.1 200 OK\r\nX-Filler: ", dribble), tooLate()),
		alike("hang", does("", silent), tooLate()),
	}
}

func statusFaults() []fault {
	var list []fault
	for _, status := range []int{400, 401, 404, 413, 422} {
		list = append(list, alike(named(status), says(status, ownWords), refuses(status)))
	}
	return append(list,
		alike(named(408), says(408, ownWords), impatient()),
		alike(named(429), says(429, ownWords), busy(429)),
		alike(named(503), says(503, inTrouble), busy(503)),
		alike("500 with a reason", says(500, inTrouble), fails(500, "failed")),
		fault{"500 without a reason", says(500, noReason), fails(500, "failed"), fails(500, "handoff"), fails(500, "handoff")},
		alike("500 that speaks of the hand-off", says(500, noTransfer), fails(500, "handoff")),
		alike(named(502), says(502, inTrouble), fails(502, "failed")),
		alike(named(504), says(504, inTrouble), fails(504, "failed")),
		alike(named(302), says(302, ""), fails(502, "failed")),
	)
}

func named(status int) string { return strconv.Itoa(status) + " " + http.StatusText(status) }

// answerFaults are about answers of status 200 that are none.
func answerFaults() []fault {
	return []fault{
		alike("garbage JSON", answers(`{"choi:`), nonsensical()),
		{"frame that is no JSON", garbled, never(noFrames), never(noFrames), sequel{shape: unread, status: 200, blame: "ok", taken: true}},
		alike("JSON that is no answer", answers(`"OK"`), nonsensical()),
		{"wrong content type", wrongType, sound(), nonsensical().open(), nonsensical()},
		{"JSON in place of a stream", wholeJSON, never(noStreams), never(noStreams), nonsensical()},
		{"empty 200", empty, nonsensical(), nonsensical(), broke().ended()},
		alike("200 with an error object", answers(inTrouble), fails(500, "failed").begun()),
		alike("200 with an error object of status 400", answers(fmt.Sprintf(ownWords, 400)), refuses(400).begun()),
		{"first frame is an error", streams(frame(inTrouble)), nonsensical(), nonsensical().open(), fails(500, "failed").begun().open()},
		{"first frame is an error of the hand-off", streams(frame(noTransfer)), nonsensical(), nonsensical().open(), fails(500, "handoff").begun().open()},
		{"first frame is an error of status 400", streams(frame(fmt.Sprintf(ownWords, 400))), nonsensical(), nonsensical().open(), refuses(400).begun().open()},
		{"error frame and [DONE] before a token", streams(roleEvent, frame(inTrouble), doneEvent), nonsensical(), nonsensical().open(), fails(500, "failed").begun().open()},
		{"error frame and [DONE] after a token", lateError, never(noFrames), never(noFrames), sequel{shape: asItIs, status: 200, blame: "failed", taken: true}},
	}
}

// placeFaults are what an engine may do at each place.
func placeFaults(name string, at func(place) (func(askedFor) deed, sequel)) []fault {
	var list []fault
	for _, p := range places() {
		do, s := at(p)
		switch {
		case do == nil:
		case p.stream:
			list = append(list, fault{name + p.name, do, never(noFrames), never(noFrames), s})
		default:
			list = append(list, fault{name + p.name, do, s, s, never(noJSON)})
		}
	}
	return list
}

func (p place) dying() (func(askedFor) deed, sequel) {
	switch {
	case p.complete():
		return p.after(closes), sound()
	case p.committed():
		return p.after(closes), tornOff("failed")
	default:
		return p.after(closes), broke().begun()
	}
}

func (p place) stalling() (func(askedFor) deed, sequel) {
	switch {
	case p.complete():
		return p.after(silent), sound()
	case p.committed():
		return p.after(silent), tornOff("failed").silent()
	default:
		return p.after(silent), tooLate().begun()
	}
}

// ending is about what only a stream's framing, or half a JSON value of the
// right length, can be: all else is a death, or is whole.
func (p place) ending() (func(askedFor) deed, sequel) {
	switch {
	case p.complete(), !p.stream && !p.part:
		return nil, sequel{}
	case !p.stream:
		return p.cutShort(), nonsensical()
	case p.committed():
		return p.cutShort(), tornOff("failed").ended()
	default:
		return p.cutShort(), broke().ended()
	}
}

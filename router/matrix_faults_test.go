package router

import (
	"fmt"
	"net/http"
	"strings"

	"pdrouter/workers"
)

// An askedFor is a leg as the engine that is to answer it sees it, with the
// sound answer to it.
type askedFor struct {
	role   workers.Role
	stream bool     // only decode's ever is one
	body   string   // the sound answer, if it is no stream
	frames []string // if it is
}

// A deed is what a sick engine does with a leg: what it writes, and how
// it ends.
type deed struct {
	writes string
	ends   ending
	met    bool   // the KV has been handed over, and prefill's leg has ended, before it begins
	slowly bool   // its first bytes come one by one
	read   bool   // then it waits until the client has read of the answer: an RST overtakes bytes
	last   string // what it writes after that
	passed string // what of it the client must be given, if the fault comes after the commit
}

// An ending is how a connection comes to its end.
type ending uint8

const (
	closes  ending = iota // an orderly end, behind all that was written
	resets                // an RST
	silent                // none: the engine says nothing more
	dribble               // a header that grows by a byte now and then
)

// sound is the answer of an engine that is well.
func (a askedFor) sound() string {
	if a.stream {
		return streamHead + inChunks(a.frames...) + lastChunk
	}
	return jsonHead(len(a.body)) + a.body
}

const (
	lastChunk  = "0\r\n\r\n"
	streamHead = "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\nConnection: close\r\n\r\n"
)

func jsonHead(length int) string { return head(200, "application/json", length) }

func head(status int, contentType string, length int) string {
	return fmt.Sprintf("HTTP/1.1 %d %s\r\nContent-Type: %s\r\nContent-Length: %d\r\nConnection: close\r\n\r\n",
		status, http.StatusText(status), contentType, length)
}

// inChunks frames each part as a chunk of its own.
func inChunks(parts ...string) string {
	var b strings.Builder
	for _, p := range parts {
		fmt.Fprintf(&b, "%x\r\n%s\r\n", len(p), p)
	}
	return b.String()
}

// does returns a deed that is the same whatever was asked for.
func does(writes string, ends ending) func(askedFor) deed {
	return func(askedFor) deed { return deed{writes: writes, ends: ends} }
}

// Words of engines. What they say of their own troubles names rooms and
// addresses, which is not for clients.
const (
	ownWords   = `{"error":{"message":"This is not to be had.","type":"BadRequestError","param":null,"code":%d}}`
	inTrouble  = `{"error":{"message":"out of memory at 10.0.0.7 in room 7","type":"InternalServerError","param":null,"code":500}}`
	noReason   = `{"error":{"message":"Internal server error","type":"InternalServerError","param":null,"code":500}}`
	noTransfer = `{"error":{"message":"Decode transfer failed for request rank=0 (bootstrap_room=7) at 10.0.0.7","type":"InternalServerError","param":null,"code":500}}`
)

// says answers with a status and JSON, and asks to come again in 7 s.
func says(status int, body string) func(askedFor) deed {
	if strings.Contains(body, "%d") {
		body = fmt.Sprintf(body, status)
	}
	h := strings.Replace(head(status, "application/json", len(body)), "\r\n\r\n", "\r\nRetry-After: 7\r\n\r\n", 1)
	return does(h+body, closes)
}

// answers answers with JSON and status 200.
func answers(body string) func(askedFor) deed { return does(jsonHead(len(body))+body, closes) }

// frame is an event with that payload.
func frame(payload string) string { return "data: " + payload + "\n\n" }

// streams answers with events, whatever was asked for, and ends as a stream ends.
func streams(frames ...string) func(askedFor) deed {
	return does(streamHead+inChunks(frames...)+lastChunk, closes)
}

func resetInBody(a askedFor) deed {
	if a.stream {
		return deed{writes: streamHead + inChunks(a.frames[0]), ends: resets}
	}
	return deed{writes: jsonHead(len(a.body)) + a.body[:len(a.body)/2], ends: resets}
}

func resetAfterToken(a askedFor) deed {
	return deed{writes: streamHead + inChunks(a.frames[:3]...), ends: resets, met: true, read: true, passed: strings.Join(a.frames[:3], "")}
}

func slowHead(a askedFor) deed { return deed{writes: a.sound(), met: true, slowly: true} }

func wrongType(a askedFor) deed {
	if a.stream {
		all := strings.Join(a.frames, "")
		return deed{writes: jsonHead(len(all)) + all, met: true}
	}
	return deed{writes: head(200, "text/event-stream", len(a.body)) + a.body, met: true}
}

func empty(a askedFor) deed {
	if a.stream {
		return deed{writes: streamHead + lastChunk}
	}
	return deed{writes: jsonHead(0)}
}

func halfJSON(a askedFor) deed {
	half := chatAnswer[:len(chatAnswer)/2]
	return deed{writes: jsonHead(len(half)) + half, met: a.role == workers.Decode}
}

func wholeJSON(a askedFor) deed {
	return deed{writes: jsonHead(len(chatAnswer)) + chatAnswer, met: true}
}

// A place is a point in an answer where an engine may fall silent or die.
type place struct {
	name   string
	stream bool // in one; else in a JSON answer
	whole  int  // whole frames before it
	part   bool // and half of the next, or of the JSON answer
	all    int  // of a JSON answer: how many bytes are missing, if not a half
}

// The places: behind every frame of a stream, and inside them.
func places() []place {
	return []place{
		{name: "the head of a JSON answer", all: -1},
		{name: "half of a JSON answer", part: true},
		{name: "all but one byte of a JSON answer", all: 1},
		{name: "a whole JSON answer"},
		{name: "the head of a stream", stream: true},
		{name: "half of the role's frame", stream: true, part: true},
		{name: "the role's frame", stream: true, whole: 1},
		{name: "half of the first token's frame", stream: true, whole: 1, part: true},
		{name: "the first token's frame", stream: true, whole: 2},
		{name: "half of the second token's frame", stream: true, whole: 2, part: true},
		{name: "the second token's frame", stream: true, whole: 3},
		{name: "half of the finish reason's frame", stream: true, whole: 3, part: true},
		{name: "the finish reason's frame", stream: true, whole: 4},
		{name: "half of [DONE]", stream: true, whole: 4, part: true},
		{name: "[DONE]", stream: true, whole: 5},
	}
}

// committed reports whether the client has been given something by then.
func (p place) committed() bool { return p.stream && p.whole >= 2 }

// complete reports whether nothing is missing.
func (p place) complete() bool { return p.name == "a whole JSON answer" || p.whole == 5 }

// after returns what an engine does that gets as far as p.
func (p place) after(ends ending) func(askedFor) deed {
	return func(a askedFor) deed {
		d := deed{ends: ends, met: a.role == workers.Decode || p.complete()}
		if !a.stream {
			n := len(a.body) - p.all
			switch {
			case p.part:
				n = len(a.body) / 2
			case p.all < 0:
				n = 0
			}
			d.writes = jsonHead(len(a.body)) + a.body[:n]
			return d
		}
		d.writes = streamHead + inChunks(a.frames[:p.whole]...)
		if p.part {
			next := a.frames[p.whole]
			d.writes += inChunks(next[:len(next)/2])
		}
		if p.committed() {
			d.passed, d.read = strings.Join(a.frames[:p.whole], ""), true // before, it would be tried again
		}
		return d
	}
}

// cutShort does as after, but ends as an answer ends that is whole.
func (p place) cutShort() func(askedFor) deed {
	return func(a askedFor) deed {
		if !a.stream {
			return halfJSON(a)
		}
		d := p.after(closes)(a)
		d.last = lastChunk
		return d
	}
}

// lateError has tokens followed by the engine's own error and [DONE].
func lateError(a askedFor) deed {
	frames := append(a.frames[:3:3], frame(inTrouble), doneEvent)
	return deed{writes: streamHead + inChunks(frames...) + lastChunk, met: true, passed: strings.Join(frames, "")}
}

// garbled has a first frame that is no JSON.
func garbled(a askedFor) deed {
	frames := append([]string{frame(`{"choi:`)}, a.frames[1:]...)
	return deed{writes: streamHead + inChunks(frames...) + lastChunk, met: true, passed: strings.Join(frames, "")}
}

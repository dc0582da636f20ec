package router

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"time"

	"pdrouter/exchange"
	"pdrouter/metrics"
	"pdrouter/transfer"
	"pdrouter/workers"
)

const (
	// firstBuffer and maxEvent are the least and the most that is buffered of
	// one stream, in bytes: some events of a token each, and what an event with
	// a long list of logprobs may need. A longer one passes in pieces.
	firstBuffer = 1 << 10
	maxEvent    = 64 << 10

	// oneRead is as much as is read at once of a stream whose events come
	// faster than they can be passed on one by one.
	oneRead = 8 << 10

	// afterDone is how long the engine may take to end an answer whose last
	// event the client has already.
	afterDone = time.Second
)

// A stream relays decode's answer event by event: bytes as they come, flushed
// once per read, but never half an event, so that an error event of ours can
// follow wherever the engine breaks off. Nobody can act on half an event, so
// this delays nothing.
type stream struct {
	*attempt
	answer *exchange.Answer

	buf    []byte // buf[:filled] has been read and not been passed on
	filled int
	from   int  // up to here there is no end of an event
	cr     bool // lines may end with a carriage return

	recent  [2][]byte // copies of the last two events that have been passed on
	begun   bool      // an event that commits has been passed
	torn    bool      // the beginning of an event that is too long has been passed
	done    bool      // the event that ends the stream has been passed
	aborted bool      // the engine gave up on the request, and said so as if it were an end
	said    *Error    // the engine's own error event, passed as it is
}

// newStream returns the stream that answer is. Written out in its caller, it
// would make the stack of every open stream larger.
//
//go:noinline
func (a *attempt) newStream(answer *exchange.Answer) *stream {
	a.streamHeader = answer.Header
	return &stream{attempt: a, answer: answer, buf: a.h.memory.take(firstBuffer)[:firstBuffer]}
}

// relay relays the stream to its end. It returns an *Error for what decode did
// wrong.
func (s *stream) relay() error {
	defer s.free()
	for { // until the first token, the attempt's own patience is the bound
		n, err := s.answer.Read(s.buf[s.filled:])
		s.filled += n
		if n > 0 {
			if err := s.forward(); err != nil {
				return err
			}
			s.letGo()
		}
		if s.done || errors.Is(err, io.EOF) && s.wasDone() {
			return s.finish(err)
		}
		if err != nil {
			return s.broken(err)
		}
	}
}

// free gives back the buffer. What is still needed of the stream was copied.
func (s *stream) free() {
	s.h.memory.put(s.buf)
	s.buf = nil
}

// forward passes on the whole events in the buffer and makes room for more.
func (s *stream) forward() error {
	full := s.filled >= len(s.buf)-len(s.buf)/4 // the rest may have been framing
	end, commits, err := s.whole()
	if err != nil {
		return err
	}
	s.torn = s.torn && end == 0
	if end == 0 && full && len(s.buf) >= s.most() {
		end, commits, s.torn, s.from = s.filled, true, true, 0
	}
	if end > 0 {
		s.note(time.Now(), commits)
		if err := s.gate.pass(s.buf[:end], commits); err != nil {
			return s.stopped(err)
		}
		s.filled = copy(s.buf, s.buf[end:s.filled])
		s.from = max(0, s.from-end)
	}
	if full && (end == 0 || len(s.buf) < oneRead) { // an event is long, or many come at once
		bigger := max(oneRead, 2*len(s.buf))
		s.buf = s.h.memory.move(s.buf[:s.filled], bigger)[:bigger]
	}
	return nil
}

// most is how much is buffered of one event: before the stream has begun as much
// as is held, because the event may be an error.
func (s *stream) most() int {
	if s.begun {
		return maxEvent
	}
	return maxHold
}

// letGo lets go of what nobody needs any more once the stream is on its way: the
// request's body, and prefill's answer. A stream may last for hours.
func (s *stream) letGo() {
	if s.call.held == nil || !s.gate.opened() || !s.answer.Sent() {
		return
	}
	select {
	case <-s.prefilled:
	default:
		return // prefill's leg may still be written
	}
	s.req.Forget()
	s.h.freeBody(s.call)
	prefill := &s.legs[workers.Prefill]
	s.h.memory.put(prefill.body)
	s.attempt.answer, prefill.body = nil, nil
	prefill.held.release()
}

// note notes the time at which events came, and that the first of them commits,
// if it does.
func (s *stream) note(now time.Time, commits bool) {
	if commits && !s.begun {
		s.begun = true
		s.answer.SetIdle(s.call.cfg.StreamIdle)
		s.timeFirstToken(now)
		s.legs[workers.Decode].lease.Began()
	}
	if !s.begun {
		return
	}
	s.lastToken = now
	if s.done {
		return
	}
	if gap := s.call.rec.Token(now); gap > 0 {
		s.work.Gap(gap)
	}
}

// whole returns the end of the last whole event in the buffer. Up to the event
// that commits, each is judged; after it only the last two matter.
func (s *stream) whole() (end int, commits bool, err error) {
	s.cr = s.cr || bytes.IndexByte(s.buf[s.from:s.filled], '\r') >= 0
	for !s.begun && !commits || s.cr {
		size, resume := transfer.NextEvent(s.buf[end:s.filled], max(0, s.from-end))
		if s.from = end + resume; size == 0 {
			return end, commits, nil
		}
		event := s.buf[end : end+size]
		if !s.begun && !commits {
			if commits, err = s.judge(event); err != nil {
				return 0, false, err
			}
		}
		s.remember(event)
		end += size
	}
	from := max(end, s.from-1) // the blank line may be half there
	if i := lastBlankLine(s.buf[from:s.filled]); i >= 0 {
		s.rememberLast(s.buf[end : from+i+2])
		end = from + i + 2
	}
	s.from = s.filled
	return end, commits, nil
}

// judge says whether an event commits. An error before anything has been passed
// is the engine's true status.
func (s *stream) judge(event []byte) (commits bool, err error) {
	what := transfer.Classify(s.req.Endpoint(), event)
	switch what.Kind {
	case transfer.Failure:
		return false, s.h.engineError(workers.Decode, what.Err, "")
	case transfer.Comment, transfer.Quiet:
		return false, nil
	case transfer.Done:
		s.done = true
	case transfer.Finish, transfer.Content:
	}
	return true, nil
}

// remember keeps a copy of the last event.
func (s *stream) remember(event []byte) {
	s.recent[0], s.recent[1] = s.recent[1], append(s.recent[0][:0], event...)
	s.done = s.done || isEnd(event)
}

// rememberLast keeps copies of the last two of some events, none of whose lines
// ends with a carriage return.
func (s *stream) rememberLast(events []byte) {
	last := startOfLast(events)
	if last > 0 {
		s.remember(events[startOfLast(events[:last]):last])
	}
	s.remember(events[last:])
}

func startOfLast(events []byte) int {
	if i := lastBlankLine(events[:len(events)-2]); i >= 0 {
		return i + 2
	}
	return 0
}

// lastBlankLine returns where the last two line breaks in a row begin, or -1. It
// is bytes.LastIndex, which hashes each byte, in half the time.
func lastBlankLine(b []byte) int {
	for i := len(b); ; {
		if i = bytes.LastIndexByte(b[:i], '\n'); i < 1 {
			return -1
		}
		if b[i-1] == '\n' {
			return i - 1
		}
	}
}

// wasDone reports whether the event that ends the stream came, though something
// came behind it.
func (s *stream) wasDone() bool {
	for _, event := range s.recent {
		s.done = s.done || transfer.Classify(s.req.Endpoint(), event).Kind == transfer.Done
	}
	return s.done
}

// isEnd reports whether an event is the one that ends the stream. In nearly all
// events it looks at one byte.
func isEnd(event []byte) bool {
	data, ok := bytes.CutPrefix(event, []byte("data:"))
	return ok && string(bytes.TrimSpace(data[:min(len(data), 16)])) == "[DONE]"
}

// finish ends a stream whose last event has been passed on: the client has
// all; what is left is to see the engine's answer to its end, so that the
// connection can be used again.
func (s *stream) finish(err error) error {
	s.legs[workers.Decode].ended = true
	s.lookBack()
	if err == nil {
		s.answer.SetIdle(afterDone)
		_, _ = s.answer.Read(s.buf)
	}
	s.call.whole = true
	if s.said != nil {
		s.how = metrics.EngineError
		return s.said
	}
	if s.aborted {
		s.how, s.call.aborted = metrics.EngineAbort, true
	}
	return nil
}

// lookBack reads the last two events before the end: engines tell usage there,
// and that they gave up, by an error event or a finish reason, which was passed
// on like the rest.
func (s *stream) lookBack() {
	for _, event := range s.recent {
		what := transfer.Classify(s.req.Endpoint(), event)
		s.aborted = s.aborted || what.Aborted
		if what.Kind == transfer.Failure {
			s.said = s.h.engineError(workers.Decode, what.Err, "")
			s.said.told = true
			s.said.Fault = &workers.Fault{Kind: workers.Failed, Err: what.Err} // the KV had come
		}
		if what.Usage.Completion >= 0 {
			s.usage = what.Usage
		}
	}
}

// broken returns the error for a stream that ended without its last event.
func (s *stream) broken(err error) error {
	if errors.Is(err, io.EOF) {
		s.legs[workers.Decode].ended = true
		err = errors.New("stream ended without its last event")
	}
	failed := s.legFailed(&s.legs[workers.Decode], err)
	s.call.torn = s.torn
	if e, ok := errors.AsType[*Error](failed); ok && s.gate.shut() {
		e.Code = "upstream_disconnected" // the answer had begun
	}
	return failed
}

// stopped returns the error for bytes that could not be passed on: the attempt
// has failed, or the client takes nothing.
func (s *stream) stopped(err error) error {
	if errors.Is(err, errShut) {
		return context.Canceled
	}
	return s.clientLeft()
}

// beginStream sets the head of a streamed answer. The gate calls it.
func (a *attempt) beginStream() {
	head := a.call.w.Header()
	relayHeader(head, a.streamHeader)
	a.streamHeader = nil // a stream may last for hours
	if head.Get("Cache-Control") == "" {
		head.Set("Cache-Control", "no-cache")
	}
	if head.Get("X-Accel-Buffering") == "" {
		head.Set("X-Accel-Buffering", "no") // nginx in front must not collect tokens
	}
	head.Set("Date", time.Now().UTC().Format(http.TimeFormat)) // net/http does it in the deepest place of all
	a.call.w.WriteHeader(http.StatusOK)
	if a.gate.commits {
		a.see(a.call.w.headAt)
	}
}

// verdictLate counts a stream that began before prefill's verdict.
func (a *attempt) verdictLate() { a.h.met.VerdictLate() }

// endStream tells the client, in a stream that has begun, why it ends. There
// is no [DONE]: the answer is not whole (I4).
func (c *call) endStream(e *Error) error {
	event := e.event()
	if c.torn {
		event = append([]byte("\n\n"), event...)
	}
	return c.w.send(event)
}

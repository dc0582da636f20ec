package tracing

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"time"

	"google.golang.org/protobuf/encoding/protowire"
)

const (
	// sendTime bounds one try of sending a batch.
	sendTime = 10 * time.Second

	// maxReply bounds what is read of a collector's answer.
	maxReply = 64 << 10

	// grpcPrefix stands before a message of gRPC: whether it is compressed, and its
	// length.
	grpcPrefix = 5
)

// A sender sends batches to one collector. OTLP over gRPC is one call without
// streams, which is a POST of HTTP/2 with trailers: net/http can do that.
type sender struct {
	target
	client http.Client
}

func newSender(to target) *sender {
	var protocols http.Protocols
	if to.grpc {
		protocols.SetHTTP2(true)
		protocols.SetUnencryptedHTTP2(true)
	} else {
		protocols.SetHTTP1(true)
		protocols.SetHTTP2(true)
	}
	dial := net.Dialer{Timeout: sendTime / 2}
	return &sender{target: to, client: http.Client{
		Timeout:   sendTime,
		Transport: &http.Transport{Protocols: &protocols, DialContext: dial.DialContext, IdleConnTimeout: time.Minute},
	}}
}

func (s *sender) close() { s.client.CloseIdleConnections() }

// A refusal is what a collector answered that did not take a batch.
type refusal struct {
	what string // HTTP status, or gRPC status
	code int
	pass bool // it may take the same batch later
	text string
}

// Error implements error.
func (r *refusal) Error() string {
	s := fmt.Sprintf("the collector answers with %s %d", r.what, r.code)
	if r.text != "" {
		s += ": " + r.text
	}
	return s
}

// A rejection is what a collector answered that took a batch but for some spans.
type rejection struct {
	spans int64
	text  string
}

// Error implements error.
func (r *rejection) Error() string {
	return fmt.Sprintf("the collector rejected %d spans of a batch: %s", r.spans, r.text)
}

func asRejected(err error) (*rejection, bool) { return errors.AsType[*rejection](err) }

// mayPass reports whether sending the same batch again may help.
func mayPass(err error) bool {
	if r, ok := errors.AsType[*refusal](err); ok {
		return r.pass
	}
	return true // it could not be asked
}

// message returns a batch as it is sent, in memory of its own: net/http may read
// a body still when its answer is there, and the batch's memory is used again.
func (s *sender) message(batch []byte) []byte {
	body := make([]byte, 0, grpcPrefix+len(batch))
	if s.grpc {
		body = binary.BigEndian.AppendUint32(append(body, 0), uint32(len(batch)))
	}
	return append(body, batch...)
}

// send sends a batch.
func (s *sender) send(ctx context.Context, batch []byte) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, s.url, bytes.NewReader(s.message(batch)))
	if err != nil {
		return err
	}
	req.Header.Set("User-Agent", "pdrouter")
	req.Header.Set("Content-Type", "application/x-protobuf")
	if s.grpc {
		req.Header.Set("Content-Type", "application/grpc")
		req.Header.Set("Te", "trailers")
	}
	resp, err := s.client.Do(req)
	if err != nil {
		if u, ok := errors.AsType[*url.Error](err); ok {
			err = u.Err // without the URL, which is known
		}
		return fmt.Errorf("send to %s: %w", req.URL.Host, err)
	}
	defer resp.Body.Close()
	reply, err := io.ReadAll(io.LimitReader(resp.Body, maxReply))
	if err != nil {
		return fmt.Errorf("read the answer of %s: %w", req.URL.Host, err)
	}
	if s.grpc {
		return readGRPC(resp, reply)
	}
	return readHTTP(resp, reply)
}

func readHTTP(resp *http.Response, reply []byte) error {
	if resp.StatusCode/100 == 2 {
		return partial(reply)
	}
	pass := []int{http.StatusTooManyRequests, http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout}
	return &refusal{what: "HTTP status", code: resp.StatusCode, pass: slices.Contains(pass, resp.StatusCode)}
}

func readGRPC(resp *http.Response, reply []byte) error {
	if resp.StatusCode != http.StatusOK {
		return readHTTP(resp, nil)
	}
	end := resp.Trailer
	if end.Get("Grpc-Status") == "" {
		end = resp.Header // an answer of nothing but trailers
	}
	code, err := strconv.Atoi(end.Get("Grpc-Status"))
	switch {
	case err != nil:
		return &refusal{what: "no gRPC status, but HTTP status", code: resp.StatusCode}
	case code == 0 && len(reply) >= grpcPrefix:
		return partial(reply[grpcPrefix:])
	case code == 0:
		return nil
	}
	// cancelled, deadline exceeded, resource exhausted, aborted, out of range,
	// unavailable, data loss: those which OTLP calls retryable
	return &refusal{what: "gRPC status", code: code, pass: slices.Contains([]int{1, 4, 8, 10, 11, 14, 15}, code), text: end.Get("Grpc-Message")}
}

// The fields of a collector's answer, if it did not like some spans.
const (
	replyPartial    = 1
	partialRejected = 1
	partialMessage  = 2
)

// partial returns the rejection that is in an answer, if one is.
func partial(reply []byte) error {
	var r rejection
	eachField(reply, func(n protowire.Number, in []byte, _ uint64) {
		if n != replyPartial {
			return
		}
		eachField(in, func(n protowire.Number, text []byte, v uint64) {
			if n == partialRejected {
				r.spans = int64(v)
			}
			if n == partialMessage {
				r.text = string(text)
			}
		})
	})
	if r.spans == 0 {
		return nil // a message alone is a warning
	}
	return &r
}

// eachField calls f with the fields of a message: what is in a text or a message,
// or else a number. It ends at what is no field.
func eachField(b []byte, f func(n protowire.Number, in []byte, v uint64)) {
	for len(b) > 0 {
		n, kind, size := protowire.ConsumeTag(b)
		if size < 0 {
			return
		}
		b = b[size:]
		var in []byte
		var v uint64
		size = protowire.ConsumeFieldValue(n, kind, b)
		if kind == protowire.BytesType {
			in, _ = protowire.ConsumeBytes(b)
		}
		if kind == protowire.VarintType {
			v, _ = protowire.ConsumeVarint(b)
		}
		if size < 0 {
			return
		}
		f(n, in, v)
		b = b[size:]
	}
}

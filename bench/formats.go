package bench

import (
	"bufio"
	"bytes"
	"encoding/csv"
	"encoding/json"
	"errors"
	"fmt"
	"hash/fnv"
	"io"
	"slices"
	"strings"
	"time"
)

// Formats returns the names of the forms of traces that ReadAny can tell apart:
//
//   - mooncake: see ReadTrace.
//   - alibaba: the same with times in seconds, ids for each 16 tokens, and the
//     number of the chat that a request belongs to.
//   - azure: CSV of time, prompt tokens and answer tokens. No two prompts
//     begin alike, as far as it tells.
//   - sharegpt: a JSON list of conversations. Each turn of a person is a
//     request with all that was said before. It has no times: conversations
//     begin one after the other, one in a second, and a turn comes half a
//     minute after the one before.
func Formats() []string { return []string{"mooncake", "alibaba", "azure", "sharegpt"} }

// ReadAny reads a trace in any of Formats, which it also tells. An error says
// which line is at fault.
func ReadAny(r io.Reader) (reqs []Request, format string, err error) {
	in := bufio.NewReaderSize(r, 1<<16)
	head, err := in.Peek(1 << 12)
	if err != nil && !errors.Is(err, io.EOF) {
		return nil, "", err
	}
	line, _, _ := bytes.Cut(bytes.TrimSpace(head), []byte("\n"))
	switch {
	case bytes.HasPrefix(line, []byte("[")):
		reqs, err = readShareGPT(in)
		return reqs, "sharegpt", err
	case bytes.HasPrefix(line, []byte("TIMESTAMP")):
		reqs, err = readAzure(in)
		return reqs, "azure", err
	case bytes.Contains(line, []byte(`"chat_id"`)):
		reqs, err = readAlibaba(in)
		return reqs, "alibaba", err
	case len(line) == 0 || bytes.HasPrefix(line, []byte("{")):
		reqs, err = ReadTrace(in)
		return reqs, "mooncake", err
	default:
		return nil, "", fmt.Errorf("line 1: begins with %.20q, as no trace does in a form that is known (%s)", line, strings.Join(Formats(), ", "))
	}
}

// alibabaTokens is how many tokens an id of an Alibaba trace stands for.
const alibabaTokens = 16

func readAlibaba(r io.Reader) ([]Request, error) {
	var reqs []Request
	err := eachLine(r, func(line []byte) error {
		var q struct {
			Request

			Timestamp float64 `json:"timestamp"` // in seconds
		}
		if err := json.Unmarshal(line, &q); err != nil {
			return err
		}
		q.Request.Timestamp, q.Block = int64(q.Timestamp*1000), alibabaTokens
		q.OutputLength = max(q.OutputLength, 1)
		if err := q.check(nil); err != nil {
			return err
		}
		reqs = append(reqs, q.Request)
		return nil
	})
	if err != nil {
		return nil, err
	}
	return inOrder(reqs), nil
}

func readAzure(r io.Reader) ([]Request, error) {
	in := csv.NewReader(r)
	in.FieldsPerRecord = -1 // azureLine says better what is wrong
	if _, err := in.Read(); err != nil {
		return nil, err // names its line
	}
	var (
		reqs  []Request
		first time.Time
		ids   int64
	)
	for {
		fields, err := in.Read()
		if errors.Is(err, io.EOF) {
			return inOrder(reqs), nil
		}
		if err != nil {
			return nil, err
		}
		at, q, err := azureLine(fields)
		if len(reqs) == 0 {
			first = at
		}
		if q.Timestamp = at.Sub(first).Milliseconds(); err == nil {
			q.HashIDs = fresh(&ids, q.InputLength)
			err = q.check(nil)
		}
		if err != nil {
			line, _ := in.FieldPos(0)
			return nil, fmt.Errorf("line %d: %w", line, err)
		}
		reqs = append(reqs, q)
	}
}

// fresh returns ids for a prompt of that many tokens, of which none was there
// before.
func fresh(next *int64, tokens int) []int64 {
	ids := make([]int64, max(tokens+BlockTokens-1, 0)/BlockTokens)
	for i := range ids {
		ids[i] = *next
		*next++
	}
	return ids
}

func azureLine(line []string) (time.Time, Request, error) {
	var q Request
	if len(line) < 3 {
		return time.Time{}, q, fmt.Errorf("%d columns, want 3", len(line))
	}
	at, err := time.Parse("2006-01-02 15:04:05.9999999", line[0])
	if err != nil {
		return at, q, err
	}
	if _, err = fmt.Sscanf(line[1]+" "+line[2], "%d %d", &q.InputLength, &q.OutputLength); err != nil {
		return at, q, fmt.Errorf("tokens %q and %q: %w", line[1], line[2], err)
	}
	if q.InputLength > maxInput {
		return at, q, fmt.Errorf("a prompt of %d tokens", q.InputLength)
	}
	q.OutputLength = max(q.OutputLength, 1)
	return at, q, nil
}

// maxInput bounds a prompt's tokens, where ids are made of their number.
const maxInput = 1 << 24

const (
	shareBegin = 1000  // ms between the beginnings of two conversations
	shareTurn  = 30000 // ms between two turns of one
)

// A turn is what one side of a conversation says at a time.
type turn struct{ From, Value string }

func readShareGPT(r io.Reader) ([]Request, error) {
	text, err := io.ReadAll(r)
	if err != nil {
		return nil, err
	}
	var all []struct{ Conversations []turn }
	if err := json.Unmarshal(text, &all); err != nil {
		return nil, fmt.Errorf("line %d: %w", lineOf(text, err), err)
	}
	var reqs []Request
	for i, c := range all {
		reqs = append(reqs, requestsOf(c.Conversations, int64(i)*shareBegin)...)
	}
	return inOrder(reqs), nil
}

// lineOf returns the line of text at which decoding it came to an end.
func lineOf(text []byte, err error) int {
	end := int64(len(text))
	if e, ok := errors.AsType[*json.SyntaxError](err); ok {
		end = e.Offset
	} else if e, ok := errors.AsType[*json.UnmarshalTypeError](err); ok {
		end = e.Offset
	}
	return 1 + bytes.Count(text[:min(end, int64(len(text)))], []byte("\n"))
}

// requestsOf returns a conversation's requests, the first of which comes at at.
func requestsOf(turns []turn, at int64) []Request {
	var (
		reqs []Request
		said []byte
	)
	for j, t := range turns {
		said = append(said, t.Value...)
		if t.From != "human" && t.From != "user" {
			continue
		}
		answer := 1
		if j+1 < len(turns) {
			answer = max(len(turns[j+1].Value)/BytesPerToken, 1)
		}
		if tokens := len(said) / BytesPerToken; tokens > 0 {
			reqs = append(reqs, Request{
				Timestamp: at, InputLength: tokens, OutputLength: answer,
				Block: alibabaTokens, HashIDs: idsOf(said[:tokens*BytesPerToken]),
			})
		}
		at += shareTurn
	}
	return reqs
}

// idsOf returns ids for a text's blocks: equal where all up to their end is.
func idsOf(text []byte) []int64 {
	var ids []int64
	digest := fnv.New64a()
	for block := range slices.Chunk(text, alibabaTokens*BytesPerToken) {
		_, _ = digest.Write(block) // never fails
		ids = append(ids, int64(digest.Sum64()>>1))
	}
	return ids
}

// inOrder sorts requests by their time.
func inOrder(reqs []Request) []Request {
	slices.SortStableFunc(reqs, func(a, b Request) int { return int(a.Timestamp - b.Timestamp) })
	return reqs
}

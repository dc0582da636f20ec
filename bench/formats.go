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

// ReadAny reads a trace in any of Formats, which it also tells.
func ReadAny(r io.Reader) (reqs []Request, format string, err error) {
	in := bufio.NewReaderSize(r, 1<<16)
	head, err := in.Peek(1 << 12)
	if err != nil && !errors.Is(err, io.EOF) {
		return nil, "", fmt.Errorf("read trace: %w", err)
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
	default:
		reqs, err = ReadTrace(in)
		return reqs, "mooncake", err
	}
}

// alibabaTokens is how many tokens an id of an Alibaba trace stands for.
const alibabaTokens = 16

func readAlibaba(r io.Reader) ([]Request, error) {
	var reqs []Request
	dec := json.NewDecoder(r)
	for {
		var q struct {
			Request

			Timestamp float64 `json:"timestamp"` // in seconds
		}
		err := dec.Decode(&q)
		if errors.Is(err, io.EOF) {
			return inOrder(reqs), nil
		}
		q.Request.Timestamp, q.Block = int64(q.Timestamp*1000), alibabaTokens
		q.OutputLength = max(q.OutputLength, 1)
		if err == nil {
			err = q.check(nil)
		}
		if err != nil {
			return nil, fmt.Errorf("read trace: request %d: %w", len(reqs)+1, err)
		}
		reqs = append(reqs, q.Request)
	}
}

func readAzure(r io.Reader) ([]Request, error) {
	lines, err := csv.NewReader(r).ReadAll()
	if err != nil {
		return nil, fmt.Errorf("read trace: %w", err)
	}
	var (
		reqs  []Request
		first time.Time
		ids   int64
	)
	for i, line := range lines[1:] {
		at, q, err := azureLine(line)
		if err != nil {
			return nil, fmt.Errorf("read trace: request %d: %w", i+1, err)
		}
		if i == 0 {
			first = at
		}
		q.Timestamp = at.Sub(first).Milliseconds()
		for range (q.InputLength + BlockTokens - 1) / BlockTokens {
			q.HashIDs = append(q.HashIDs, ids)
			ids++
		}
		if err := q.check(nil); err != nil {
			return nil, fmt.Errorf("read trace: request %d: %w", i+1, err)
		}
		reqs = append(reqs, q)
	}
	return inOrder(reqs), nil
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

func readShareGPT(r io.Reader) ([]Request, error) {
	var all []struct {
		Conversations []struct{ From, Value string }
	}
	if err := json.NewDecoder(r).Decode(&all); err != nil {
		return nil, fmt.Errorf("read trace: %w", err)
	}
	var reqs []Request
	for i, c := range all {
		said, at := []byte(nil), int64(i)*shareBegin
		for j, turn := range c.Conversations {
			if turn.From != "human" && turn.From != "user" {
				said = append(said, turn.Value...)
				continue
			}
			said = append(said, turn.Value...)
			answer := 1
			if j+1 < len(c.Conversations) {
				answer = max(len(c.Conversations[j+1].Value)/BytesPerToken, 1)
			}
			if tokens := len(said) / BytesPerToken; tokens > 0 {
				reqs = append(reqs, Request{Timestamp: at, InputLength: tokens, OutputLength: answer, Block: alibabaTokens, HashIDs: idsOf(said[:tokens*BytesPerToken])})
			}
			at += shareTurn
		}
	}
	return inOrder(reqs), nil
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

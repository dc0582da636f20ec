package bench

import (
	"bufio"
	"bytes"
	"cmp"
	_ "embed" // the slice of a public trace
	"encoding/json"
	"fmt"
	"io"
	"time"
)

// A Request is one line of a trace.
type Request struct {
	Timestamp    int64   `json:"timestamp"`     // when it came, in ms since the first
	InputLength  int     `json:"input_length"`  // of the prompt, in tokens
	OutputLength int     `json:"output_length"` // of the answer, in tokens
	HashIDs      []int64 `json:"hash_ids"`      // one for each Block of the prompt

	Block int `json:"-"` // tokens that an id stands for; 0: BlockTokens
}

// At returns when the request is due, from the start of its trace.
func (r Request) At() time.Duration { return time.Duration(r.Timestamp) * time.Millisecond }

//go:embed data/conversation.jsonl
var conversation []byte

// Conversation returns the first five minutes of Mooncake's conversation trace.
func Conversation() ([]Request, error) { return ReadTrace(bytes.NewReader(conversation)) }

// ReadTrace reads a trace. It ends at the first line that is not one of a
// trace, and names it.
func ReadTrace(r io.Reader) ([]Request, error) {
	var reqs []Request
	err := eachLine(r, func(line []byte) error {
		var q Request
		if err := json.Unmarshal(line, &q); err != nil {
			return err
		}
		if err := q.check(reqs); err != nil {
			return err
		}
		reqs = append(reqs, q)
		return nil
	})
	if err != nil {
		return nil, err
	}
	return reqs, nil
}

// maxLine bounds a line of a trace, in bytes: a prompt of a million tokens has
// some 60,000 ids in the finest of forms.
const maxLine = 16 << 20

// eachLine calls read with each line of r that is not empty, until that fails.
// The error names the line.
func eachLine(r io.Reader, read func(line []byte) error) error {
	lines := bufio.NewScanner(r)
	lines.Buffer(nil, maxLine)
	at := 0
	for lines.Scan() {
		at++
		line := bytes.TrimSpace(lines.Bytes())
		if len(line) == 0 {
			continue
		}
		if err := read(line); err != nil {
			return fmt.Errorf("line %d: %w", at, err)
		}
	}
	if err := lines.Err(); err != nil {
		return fmt.Errorf("line %d: %w", at+1, err)
	}
	return nil
}

// check reports what is wrong with a request that comes after earlier.
func (r Request) check(earlier []Request) error {
	block := r.block()
	blocks := (r.InputLength + block - 1) / block
	switch {
	case r.InputLength <= 0:
		return fmt.Errorf("input_length %d is not above 0", r.InputLength)
	case r.OutputLength <= 0:
		return fmt.Errorf("output_length %d is not above 0", r.OutputLength)
	case len(r.HashIDs) != blocks:
		return fmt.Errorf("%d hash_ids for an input_length of %d, want %d", len(r.HashIDs), r.InputLength, blocks)
	case r.Timestamp < 0 || len(earlier) > 0 && r.Timestamp < earlier[len(earlier)-1].Timestamp:
		return fmt.Errorf("timestamp %d is before that of the request above it", r.Timestamp)
	}
	return nil
}

// Before returns the requests that are due before d.
func Before(reqs []Request, d time.Duration) []Request {
	for i, r := range reqs {
		if r.At() >= d {
			return reqs[:i]
		}
	}
	return reqs
}

// Lengths returns how many tokens the prompts of reqs have together, and how
// many of them an earlier prompt of reqs began with already: what the largest
// and quickest of prefix caches would find.
func Lengths(reqs []Request) (total, repeated int) {
	seen := map[int64]bool{}
	for _, r := range reqs {
		total += r.InputLength
		for i, id := range r.HashIDs {
			if seen[id] {
				repeated += r.blockLength(i)
			}
			seen[id] = true
		}
	}
	return total, repeated
}

// Ceiling returns the share of blocks that an earlier prompt of reqs had, too:
// the hit ratio of one cache for all that is never full.
func Ceiling(reqs []Request) float64 {
	seen := map[int64]bool{}
	blocks, found := 0, 0
	for _, r := range reqs {
		for _, id := range r.HashIDs {
			if seen[id] {
				found++
			}
			seen[id] = true
		}
		blocks += len(r.HashIDs)
	}
	return float64(found) / float64(max(blocks, 1))
}

// blockLength returns how many tokens block i of the prompt has.
func (r Request) blockLength(i int) int { return min(r.block(), r.InputLength-i*r.block()) }

// block returns how many tokens an id stands for.
func (r Request) block() int { return cmp.Or(r.Block, BlockTokens) }

// BlockOf returns how many tokens an id of a trace stands for.
func BlockOf(reqs []Request) int {
	if len(reqs) == 0 {
		return BlockTokens
	}
	return reqs[0].block()
}

package workers

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/go-zeromq/zmq4"
)

const (
	// kvReplayTime bounds one replay. Engines keep 10 000 batches.
	kvReplayTime = 30 * time.Second

	// kvReplayEnd is the number in the message that ends a replay.
	kvReplayEnd = math.MaxUint64
)

// replayKV asks an engine for its batches from one number on, and calls each
// with those that it still has, in order. It ends when each returns false.
func replayKV(ctx context.Context, address string, from uint64, each func(seq uint64, payload []byte) bool) error {
	c, err := dialKV(ctx, address, zmq4.Dealer)
	if err != nil {
		return fmt.Errorf("replay at %s: %w", address, err)
	}
	defer c.close()
	if err := c.send(nil, binary.BigEndian.AppendUint64(nil, from)); err != nil {
		return fmt.Errorf("replay at %s: %w", address, err)
	}
	until := time.Now().Add(kvReplayTime)
	for first := true; time.Now().Before(until); first = false {
		// The engine looks for such requests ten times a second.
		frames, err := c.receive(time.Now().Add(kvMessageTime))
		if err != nil {
			return fmt.Errorf("replay at %s: %w", address, err)
		}
		// An empty frame, with newer engines the topic, the number, the batch.
		if len(frames) < 3 || len(frames[len(frames)-2]) != 8 {
			return fmt.Errorf("replay at %s: a message of %d frames", address, len(frames))
		}
		seq, payload := binary.BigEndian.Uint64(frames[len(frames)-2]), frames[len(frames)-1]
		if seq == kvReplayEnd {
			return nil
		}
		if !first && seq != from {
			return fmt.Errorf("replay at %s: batch %d where %d was due", address, seq, from)
		}
		if from = seq + 1; !each(seq, payload) {
			return nil
		}
	}
	return errors.New("the replay takes too long")
}

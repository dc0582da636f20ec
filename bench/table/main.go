// Command table replays Mooncake's traces on the virtual clock and prints the
// figures of each policy beside those to reach: others' as they were published,
// ours as they were set. It is make replay.
//
// It is not pdrouter replay, which runs any trace against any policies: what is
// run here is a fixed list ([bench.Cases]), so that two releases can be
// compared. The whole traces are not part of the repository; without them the
// five minutes that are, are replayed, for which no goals were set.
package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"pdrouter/bench"
)

func main() {
	if err := run(os.Args[1:], os.Stdout); err != nil && !errors.Is(err, flag.ErrHelp) {
		fmt.Fprintln(os.Stderr, "table:", err)
		os.Exit(1) //nolint:forbidigo // func main exits
	}
}

// run prints the table to out.
func run(args []string, out io.Writer) error {
	set := flag.NewFlagSet("table", flag.ContinueOnError)
	dir := set.String("traces", "", "`directory` with conversation_trace.jsonl and synthetic_trace.jsonl of Mooncake; without it five minutes of the first are replayed")
	seeds := set.Int("seeds", 3, "replays of each, of which the means count")
	if err := set.Parse(args); err != nil {
		return err
	}
	if set.NArg() > 0 {
		return fmt.Errorf("unexpected argument %q", set.Arg(0))
	}
	if *seeds < 1 {
		return fmt.Errorf("-seeds: %d is not above 0", *seeds)
	}
	t := table{seeds: *seeds, out: out}
	var err error
	if *dir == "" {
		t.conversation, err = bench.Conversation()
	} else {
		t.whole = true
		t.conversation, err = read(filepath.Join(*dir, "conversation_trace.jsonl"))
		if err == nil {
			t.synthetic, err = read(filepath.Join(*dir, "synthetic_trace.jsonl"))
		}
	}
	if err != nil {
		return err
	}
	return t.print()
}

// read reads a whole trace.
func read(path string) ([]bench.Request, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	reqs, _, err := bench.ReadAny(f)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return reqs, nil
}

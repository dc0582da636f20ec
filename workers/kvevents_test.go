package workers

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"hash/maphash"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

// kvPython returns the interpreter of the project's virtual environment, which
// `make check` creates, or skips the test.
func kvPython(t *testing.T) string {
	t.Helper()
	path, err := filepath.Abs("../.venv/bin/python")
	if err == nil {
		err = exec.CommandContext(t.Context(), path, "-c", "import zmq, msgspec").Run()
	}
	if err == nil {
		return path
	}
	const missing = "no Python with pyzmq and msgspec at .venv/bin/python in the repository's root (`make check` makes it)"
	if os.Getenv("CI") == "true" {
		t.Fatalf("%s: %v", missing, err)
	}
	t.Skipf("%s: %v", missing, err)
	return ""
}

// A kvPublisher is a process that publishes like an engine.
type kvPublisher struct {
	t      *testing.T
	stdin  io.WriteCloser
	stdout *bufio.Scanner
	cmd    *exec.Cmd
}

func startPublisher(t *testing.T, port, replay int, topic string) *kvPublisher {
	t.Helper()
	p := &kvPublisher{t: t, cmd: exec.CommandContext(t.Context(), kvPython(t), "testdata/kvpublisher.py", fmt.Sprint(port), fmt.Sprint(replay), topic)}
	p.cmd.Stderr = os.Stderr
	p.stdin, _ = p.cmd.StdinPipe()
	out, _ := p.cmd.StdoutPipe()
	p.stdout = bufio.NewScanner(out)
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.kill)
	p.expect("listening")
	return p
}

func (p *kvPublisher) kill() {
	_ = p.cmd.Process.Kill()
	_ = p.cmd.Wait()
}

func (p *kvPublisher) expect(line string) {
	p.t.Helper()
	if !p.stdout.Scan() || p.stdout.Text() != line {
		p.t.Fatalf("publisher says %q (%v), want %q", p.stdout.Text(), p.stdout.Err(), line)
	}
}

func (p *kvPublisher) do(order string) {
	p.t.Helper()
	if _, err := io.WriteString(p.stdin, order+"\n"); err != nil {
		p.t.Fatal(err)
	}
	if strings.Contains(order, "forget") {
		p.expect("forgot")
	} else {
		p.expect("published")
	}
}

// freePorts returns ports that nobody listens on, and that no connection is
// given of itself, as those of port 0 are: they are listened on later.
func freePorts(t *testing.T, n int) []int {
	t.Helper()
	var ports []int
	for tries := 0; len(ports) < n; tries++ {
		port := 24_000 + rand.IntN(5000)
		ln, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", port))
		if err == nil {
			defer ln.Close()
			ports = append(ports, port)
		} else if tries == 100 {
			t.Fatal(err)
		}
	}
	return ports
}

// A toldSink writes down what it is told.
type toldSink struct {
	mu   sync.Mutex
	told []string
}

func (s *toldSink) add(format string, args ...any) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.told = append(s.told, fmt.Sprintf(format, args...))
}

func (s *toldSink) KVFollowed(seat, rank int) { s.add("followed %d.%d", seat, rank) }
func (s *toldSink) KVLost(seat, rank int)     { s.add("lost %d.%d", seat, rank) }
func (s *toldSink) KVTold(_, _ int, _ time.Time, e *KVEvent) {
	switch parent := fmt.Sprint(e.Parent); e.Kind {
	case KVStored:
		if e.Root {
			parent = "root"
		}
		s.add("stored %v after %s, %v by %d", e.Hashes, parent, e.Tokens, e.Size)
	case KVRemoved:
		s.add("removed %v", e.Hashes)
	case KVCleared:
		s.add("cleared")
	}
}

// want waits until just that has been told.
func (s *toldSink) want(t *testing.T, told ...string) {
	t.Helper()
	var have []string
	for tick := time.NewTicker(2 * time.Millisecond); ; <-tick.C {
		s.mu.Lock()
		have = slices.Clone(s.told)
		s.mu.Unlock()
		if slices.Equal(have, told) {
			tick.Stop()
			return
		}
		if t.Context().Err() != nil || len(have) > len(told) || time.Now().After(deadline(t)) {
			t.Fatalf("told\n  %s\nwant\n  %s", strings.Join(have, "\n  "), strings.Join(told, "\n  "))
		}
	}
}

// deadline is a while before the test would be killed.
func deadline(t *testing.T) time.Time {
	if d, ok := t.Deadline(); ok {
		return d.Add(-20 * time.Second)
	}
	return time.Now().Add(time.Minute)
}

// follow follows a publisher until the test ends.
func follow(t *testing.T, sink KVSink, at KVEndpoint) (note *kvNotes, events func() []string) {
	t.Helper()
	var mu sync.Mutex
	var said []string
	f := &kvFollower{at: at, seat: 7, sink: sink, note: &kvNotes{}, seed: maphash.MakeSeed(), say: func(k EventKind, reason string) {
		mu.Lock()
		defer mu.Unlock()
		said = append(said, k.String()+": "+reason)
	}}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		f.run(ctx)
	}()
	t.Cleanup(func() { cancel(); <-ended })
	return f.note, func() []string {
		mu.Lock()
		defer mu.Unlock()
		return slices.Clone(said)
	}
}

func tcp(port int) string { return fmt.Sprintf("tcp://127.0.0.1:%d", port) }

const (
	mapStored   = `{"events":[{"type":"BlockStored","block_hashes":[%d,%d],"parent_block_hash":null,"token_ids":[1,2,3,4],"block_size":2,"lora_id":null,"medium":"GPU","lora_name":null,"extra_keys":[null,null],"group_idx":0,"kv_cache_spec_kind":"full_attention"}]}`
	arrayStored = `{"events":[["BlockStored",[12],11,[5,6],2,null,"GPU",null]]}`
	bytesStored = `{"events":[["BlockStored",[{"hex":"ffffffff000000000000000d"}],{"hex":"ffffffff000000000000000c"},[7,8],2,null]]}`
	oneRemoved  = `{"events":[{"type":"BlockRemoved","block_hashes":[%d],"medium":"GPU","group_idx":0}]}`
)

func TestKVEventsOfAnEngine(t *testing.T) {
	ports := freePorts(t, 2)
	p := startPublisher(t, ports[0], ports[1], "kv-events")
	sink := &toldSink{}
	p.do(fmt.Sprintf(mapStored, 10, 11)) // before we come
	note, _ := follow(t, sink, KVEndpoint{Rank: 1, Events: tcp(ports[0]), Replay: tcp(ports[1]), Topic: "kv-events"})
	told := []string{"followed 7.1", "stored [10 11] after root, [1 2 3 4] by 2"}
	sink.want(t, told...)
	// A subscription may take a moment longer than the replay: then what comes
	// is missed, and is asked for with the next batch.
	p.do(arrayStored)
	p.do(fmt.Sprintf(oneRemoved, 12))
	sink.want(t, append(told, "stored [12] after 11, [5 6] by 2", "removed [12]")...)
	if got := note.state(); got.Stored != 3 || got.Removed != 1 || got.Resets != 0 {
		t.Errorf("noted %+v", got)
	}
}

func TestKVEventsWithoutReplay(t *testing.T) {
	ports := freePorts(t, 1)
	p := startPublisher(t, ports[0], 0, "")
	sink := &toldSink{}
	p.do(fmt.Sprintf(mapStored, 1, 2)) // nobody listens
	note, events := follow(t, sink, KVEndpoint{Events: tcp(ports[0])})
	p.expect("subscribed")
	p.do(bytesStored)
	p.do(`{"events":[["AllBlocksCleared"]]}`)
	p.do(`{"events":[{"type":"AllBlocksCleared"},["BlockRemoved",[-2],"CPU"],{"type":"BlockRemoved","block_hashes":[-2]}]}`)
	told := []string{"followed 7.0", "stored [13] after 12, [7 8] by 2", "cleared", "cleared", "removed [18446744073709551614]"}
	sink.want(t, told...)

	p.do(strings.Replace(fmt.Sprintf(oneRemoved, 3), "}]}", `}],"lost":true}`, 1))
	p.do(fmt.Sprintf(oneRemoved, 4))
	told = append(told, "lost 7.0", "followed 7.0", "removed [4]")
	sink.want(t, told...)
	if got := note.state(); got.Gaps != 1 || got.Resets != 1 || got.Ignored != 1 || got.Followed != 1 || got.Cleared != 2 {
		t.Errorf("noted %+v", got)
	}

	p.do(`{"payload":"c1c1"}`)
	p.do(fmt.Sprintf(oneRemoved, 5))
	told = append(told, "lost 7.0", "followed 7.0", "removed [5]")
	sink.want(t, told...)
	p.do(`{"events":[7,{"type":"BlockStored","block_hashes":"x"},{"type":"Later","x":1},["BlockRemoved",[6]]]}`)
	told = append(told, "removed [6]")
	sink.want(t, told...)
	if got := note.state(); got.Malformed != 2 || got.Ignored != 2 {
		t.Errorf("noted %+v", got)
	}

	p.kill()
	p = startPublisher(t, ports[0], 0, "")
	p.expect("subscribed")
	p.do(fmt.Sprintf(mapStored, 1, 2))
	sink.want(t, append(told, "lost 7.0", "followed 7.0", "stored [1 2] after root, [1 2 3 4] by 2")...)
	want := []string{
		"kv events followed: rank 0 at " + tcp(ports[0]),
		"kv events lost: rank 0: batches 4 to 4 are missing",
		"kv events unread: rank 0: batch 6: not msgpack",
		"kv events lost: rank 0: batch 0 came where 9 was due: the engine has started anew",
	}
	got := events()
	for i, w := range want {
		if i >= len(got) || !strings.HasPrefix(got[i], w) {
			t.Fatalf("events %q, want %q", got, want)
		}
	}
}

func TestKVEventsReplayed(t *testing.T) {
	ports := freePorts(t, 2)
	p := startPublisher(t, ports[0], ports[1], "")
	sink := &toldSink{}
	at := KVEndpoint{Events: tcp(ports[0]), Replay: tcp(ports[1])}
	p.do(fmt.Sprintf(mapStored, 1, 2))
	note, _ := follow(t, sink, at)
	told := []string{"followed 7.0", "stored [1 2] after root, [1 2 3 4] by 2"}
	sink.want(t, told...)

	// What is missing is asked for.
	p.do(strings.Replace(fmt.Sprintf(oneRemoved, 3), "}]}", `}],"lost":true}`, 1))
	p.do(fmt.Sprintf(oneRemoved, 4))
	told = append(told, "removed [3]", "removed [4]")
	sink.want(t, told...)
	if got := note.state(); got.Gaps != 1 || got.Resets != 0 {
		t.Errorf("noted %+v", got)
	}

	// What cannot be had is told to be lost.
	p.do(strings.Replace(fmt.Sprintf(oneRemoved, 5), "}]}", `}],"lost":true}`, 1))
	p.do(`{"forget":true}`)
	p.do(fmt.Sprintf(oneRemoved, 6))
	told = append(told, "lost 7.0", "followed 7.0", "removed [6]")
	sink.want(t, told...)

	// An engine that has started anew has said other things under its numbers.
	p.kill()
	p = startPublisher(t, ports[0], ports[1], "")
	for i := range 8 {
		p.do(fmt.Sprintf(oneRemoved, 20+i))
	}
	told = append(told, "lost 7.0", "followed 7.0")
	for i := range 8 {
		told = append(told, fmt.Sprintf("removed [%d]", 20+i))
	}
	waitFor(t, func() bool { return note.resets.Load() == 2 })
	p.do(fmt.Sprintf(oneRemoved, 28))
	sink.want(t, append(told, "removed [28]")...)
}

func waitFor(t *testing.T, done func() bool) {
	t.Helper()
	for tick := time.NewTicker(2 * time.Millisecond); !done(); <-tick.C {
		if time.Now().After(deadline(t)) {
			t.Fatal("it did not come")
		}
	}
}

// hostile engines: whatever is sent, the follower goes on.
func TestKVEventsOfAnythingElse(t *testing.T) {
	greeting := append([]byte{0xff, 0, 0, 0, 0, 0, 0, 0, 1, 0x7f, 3, 0}, append([]byte("NULL"), make([]byte, 48)...)...)
	frame := func(flags byte, body string) []byte { return append([]byte{flags, byte(len(body))}, body...) }
	ready := frame(4, "\x05READY\x0bSocket-Type\x00\x00\x00\x03PUB")
	cat := func(parts ...[]byte) []byte { return slices.Concat(parts...) }
	for name, sent := range map[string][]byte{
		"nothing":                         nil,
		"HTTP":                            []byte("HTTP/1.1 400 Bad Request\r\n\r\n" + strings.Repeat("x", 100)),
		"metadata that ends early":        cat(greeting, frame(4, "\x05READY\xff")),
		"metadata with a length too long": cat(greeting, frame(4, "\x05READY\x01a\xff\xff\xff\xff")),
		"another socket":                  cat(greeting, frame(4, "\x05READY\x0bSocket-Type\x00\x00\x00\x03REQ")),
		"a frame of 2^62 bytes":           cat(greeting, ready, []byte{2, 0x40, 0, 0, 0, 0, 0, 0, 0}),
		"a frame of 2^64-1 bytes":         cat(greeting, ready, []byte{3, 255, 255, 255, 255, 255, 255, 255, 255}),
		"frames without end":              cat(greeting, ready, []byte(strings.Repeat("\x01\x00", 1<<20))),
		"an empty command":                cat(greeting, ready, []byte{4, 0}),
		"one frame":                       cat(greeting, ready, frame(0, "x")),
		"a short number":                  cat(greeting, ready, frame(1, ""), frame(1, "1234567"), frame(0, "\x90")),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ln, err := net.Listen("tcp", "127.0.0.1:0")
			if err != nil {
				t.Fatal(err)
			}
			served := make(chan struct{})
			go func() {
				defer close(served)
				conn, err := ln.Accept()
				if err != nil {
					return
				}
				defer conn.Close()
				_, _ = conn.Write(sent)
				_ = conn.(*net.TCPConn).CloseWrite()
				_ = conn.SetReadDeadline(time.Now().Add(time.Second))
				_, _ = io.Copy(io.Discard, conn)
			}()
			f := &kvFollower{at: KVEndpoint{Events: "tcp://" + ln.Addr().String()}, sink: &toldSink{}, note: &kvNotes{}, say: func(EventKind, string) {}}
			if _, err := f.session(t.Context()); err == nil {
				t.Error("the session ended without an error")
			}
			ln.Close()
			<-served
		})
	}
}

func TestKVFeedOfSGLang(t *testing.T) {
	var info sglangInfo
	page := `{"kv_events":{"publisher":"zmq","endpoint_host":"*","endpoint_port_base":5557,"topic":"t","block_size":64,"dp_size":2,"replay_endpoint_port_base":6000}}`
	if err := json.Unmarshal([]byte(page), &info); err != nil {
		t.Fatal(err)
	}
	w := &Worker{Spec: Spec{URL: "http://10.0.0.7:30000"}}
	got := info.KVEvents.endpoints(w)
	want := []KVEndpoint{
		{0, "tcp://10.0.0.7:5557", "tcp://10.0.0.7:6000", "t"},
		{1, "tcp://10.0.0.7:5558", "tcp://10.0.0.7:6001", "t"},
	}
	if !slices.Equal(got, want) {
		t.Errorf("endpoints %v, want %v", got, want)
	}
	for name, k := range map[string]*sglangKVEvents{
		"none":                nil,
		"another publisher":   {Publisher: "null", Port: 1},
		"no port":             {Publisher: "zmq"},
		"too many ranks":      {Publisher: "zmq", Port: 1, Ranks: 1 << 40},
		"ports that overflow": {Publisher: "zmq", Port: 65535, Ranks: 2},
		"a host that is none": {Publisher: "zmq", Port: 1, Host: ""},
	} {
		if got := k.endpoints(&Worker{Spec: Spec{URL: "http://"}}); got != nil {
			t.Errorf("%s: %v", name, got)
		}
	}
}

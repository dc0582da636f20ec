package router

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"sync"
	"testing"
	"time"
)

// TestAborted is about requests that end early, many in each phase: at rest
// nothing is under way (BUG-077). The fleet itself checks that.
func TestAborted(t *testing.T) {
	const batch = 20
	tests := []struct {
		name, dialect   string
		prefill, decode http.HandlerFunc
		n               int // requests
		read            int // bytes of the answer before leaving; -1: all
	}{
		{"before prefill has answered", "sglang", hang, hang, 200, 0},
		{"before prefill has answered, prefill first", "vllm-nixl", hang, hang, 200, 0},
		{"before decode has answered", "sglang", reply(200, chatAnswer), hang, 200, 0},
		{"before decode has answered, prefill first", "vllm-nixl", reply(200, `{"choices":[],`+handOff+`}`), hang, 200, 0},
		{"in the middle of the stream", "sglang", reply(200, chatAnswer), then(events(tokenEvent(1)), hang), 200, 1},
		{"at any time", "sglang", reply(200, chatAnswer), endless, 40, 1 << 14},
		{"prefill fails", "sglang", reply(500, "{}"), hang, 200, -1},
		{"decode fails", "sglang", hang, reply(500, "{}"), 200, -1},
		{"decode breaks off", "sglang", reply(200, chatAnswer), then(events(tokenEvent(1)), reset), 200, -1},
		{"both break off", "sglang", reset, reset, 200, -1},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			over := make(chan struct{})
			f := newFleet(t, tt.dialect, tt.prefill, until(over, tt.decode))
			end := sync.OnceFunc(func() { close(over) })
			defer end()
			for range tt.n / batch {
				var clients sync.WaitGroup
				for range batch {
					clients.Go(func() { f.leaveAfter(tt.read) })
				}
				clients.Wait()
			}
			wait(t, "all to end", func() bool { return f.handler.Records().Count() == uint64(tt.n) && len(f.handler.Ages()) == 0 })
			end() // release legs hold bodies until they are answered
			wait(t, "release legs to end", func() bool { return f.handler.BufferedBytes() == 0 })
			f.wantIdle(t)
			legs := 0.0
			for _, outcome := range []string{"ok", "failed", "canceled"} {
				legs += f.legOutcome(t, "prefill", outcome) + f.legOutcome(t, "decode", outcome)
			}
			if int(legs)%2 != 0 || int(legs) < tt.n/4 { // some left before they had a lease, on a busy machine most
				t.Errorf("legs that ended = %v for %d requests, want two for each that had a lease", legs, tt.n)
			}
		})
	}
}

// until ends the script when over is closed.
func until(over <-chan struct{}, script http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		ctx, cancel := context.WithCancel(r.Context())
		defer cancel()
		go func() {
			defer cancel()
			select {
			case <-over:
			case <-ctx.Done():
			}
		}()
		script(w, r.WithContext(ctx))
	}
}

// leaveAfter sends a request and leaves when so much of the answer has come.
func (f *fleet) leaveAfter(read int) {
	conn, err := net.Dial("tcp", f.Listener.Addr().String())
	if err != nil {
		return
	}
	defer conn.Close()
	fmt.Fprintf(conn, "POST /v1/chat/completions HTTP/1.1\r\nHost: h\r\nConnection: close\r\nContent-Length: %d\r\n\r\n%s", len(streamRequest), streamRequest)
	conn.SetReadDeadline(time.Now().Add(5 * time.Second))
	switch {
	case read == 0:
		conn.SetReadDeadline(time.Now().Add(10 * time.Millisecond))
		conn.Read(make([]byte, 1))
	case read < 0:
		io.Copy(io.Discard, conn)
	default:
		io.ReadFull(conn, make([]byte, read))
	}
}

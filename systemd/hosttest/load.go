package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"syscall"
	"time"
)

// A load is clients that send requests, and what has become of these.
type load struct {
	stop context.CancelFunc
	done sync.WaitGroup

	mu       sync.Mutex
	open     int
	ok       int
	refused  int
	failed   int
	cut      int
	longest  time.Duration // until the first byte of an answer
	lastGood time.Time     // when an answer was whole last, and had been asked for after since
	since    time.Time
	samples  []string // of what went wrong
}

const (
	clients = 24
	baseURL = "http://127.0.0.1:30001"

	// answerTokens make an answer of some 0.2 s, and longTokens one of 2 s, of which
	// there is one in so many.
	answerTokens = 40
	longTokens   = 400
	longEach     = 8
)

// startLoad lets clients send one request after the other until end. Half of them
// keep their connections; half of the requests are streams.
func startLoad(ctx context.Context) *load {
	requests := context.WithoutCancel(ctx) // those under way run to their end
	ctx, stop := context.WithCancel(ctx)
	l := &load{stop: stop}
	for i := range clients {
		l.done.Go(func() {
			transport := &http.Transport{DisableKeepAlives: i%2 == 0}
			defer transport.CloseIdleConnections()
			client := &http.Client{Transport: transport}
			for n := i; ctx.Err() == nil; n++ {
				if l.send(requests, client, n) != nil {
					time.Sleep(20 * time.Millisecond) // no storm on what is not there
				}
			}
		})
	}
	return l
}

// end lets the last requests end.
func (l *load) end() {
	l.stop()
	l.done.Wait()
}

// send sends one request, and notes what becomes of it.
func (l *load) send(ctx context.Context, client *http.Client, n int) error {
	began := time.Now()
	l.mu.Lock()
	l.open++
	l.mu.Unlock()
	wait, begun, err := ask(ctx, client, n)
	l.mu.Lock()
	defer l.mu.Unlock()
	l.open--
	l.longest = max(l.longest, wait)
	switch {
	case err == nil:
		l.ok++
		if began.After(l.since) {
			l.lastGood = time.Now()
		}
		return nil
	case errors.Is(err, syscall.ECONNREFUSED):
		l.refused++
	case begun:
		l.cut++
	default:
		l.failed++
	}
	if len(l.samples) < 5 {
		l.samples = append(l.samples, err.Error())
	}
	return err
}

// ask sends one request and reads the answer. It returns how long the first byte
// took, and whether a stream had begun.
func ask(ctx context.Context, client *http.Client, n int) (wait time.Duration, begun bool, err error) {
	stream, tokens := n%4 < 2, answerTokens
	if n%longEach == 0 {
		tokens = longTokens
	}
	body := fmt.Sprintf(`{"model":%q,"messages":[{"role":"user","content":"question %d"}],"max_tokens":%d,"ignore_eos":true,"stream":%t}`, model, n%97, tokens, stream)
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, baseURL+"/v1/chat/completions", strings.NewReader(body))
	if err != nil {
		return 0, false, err
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Authorization", "Bearer "+secretKey)
	began := time.Now()
	resp, err := client.Do(req)
	wait = time.Since(began)
	if err != nil {
		return wait, false, err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		text, _ := io.ReadAll(resp.Body)
		return wait, false, fmt.Errorf("status %d: %.200s", resp.StatusCode, text)
	}
	if stream {
		return wait, true, readStream(resp.Body)
	}
	var answer struct{ Choices []json.RawMessage }
	if err := json.NewDecoder(resp.Body).Decode(&answer); err != nil || len(answer.Choices) != 1 {
		return wait, true, fmt.Errorf("an answer that is not whole: %w", err)
	}
	_, err = io.Copy(io.Discard, resp.Body)
	return wait, true, err
}

// readStream reads a stream to its end, and reports one that breaks off.
func readStream(body io.Reader) error {
	lines, last := bufio.NewScanner(body), ""
	for lines.Scan() {
		if text := lines.Text(); text != "" {
			last = text
		}
	}
	if err := lines.Err(); err != nil {
		return fmt.Errorf("a stream broke off: %w", err)
	}
	if last != "data: [DONE]" {
		return fmt.Errorf("a stream ended in %.120q", last)
	}
	return nil
}

// mark begins a span for back, and returns how many requests are under way.
func (l *load) mark() (open int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.since, l.lastGood = time.Now(), time.Time{}
	return l.open
}

// lost reports what was lost, if anything was.
func (l *load) lost() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.refused+l.failed+l.cut == 0 && l.ok > 0 {
		return nil
	}
	return fmt.Errorf("%s: %s", l.figuresLocked(), strings.Join(l.samples, "; "))
}

// figures is what became of the requests, in one line.
func (l *load) figures() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.figuresLocked()
}

func (l *load) figuresLocked() string {
	return fmt.Sprintf("%d requests, %d refused, %d failed, %d cut, longest wait %.2f s", l.ok+l.refused+l.failed+l.cut, l.refused, l.failed, l.cut, l.longest.Seconds())
}

// answered reports whether anything listens at addr.
func answered(addr string) bool {
	conn, err := net.DialTimeout("tcp", addr, time.Second)
	if err == nil {
		_ = conn.Close()
	}
	return err == nil
}

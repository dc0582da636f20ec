package main

import (
	"fmt"
	"strings"
	"time"
)

// A workload is one kind of request and of answer.
type workload struct {
	name   string
	title  string
	prompt int           // size of the prompt, in bytes
	chunks int           // of a streamed answer; 0: one JSON value
	every  time.Duration // from one chunk to the next; 0: as fast as they are taken
	rate   int           // requests per second, whatever the answers take; 0: one after the other
}

// held is the workload whose streams do not end while they are measured.
const held = "open"

// steady is the workload whose requests come at a rate. It is sent to an engine
// too, past all systems, so that what a system adds can be told.
const steady = "steady"

// workloads returns all of them. In "stream" the chunks come as fast as they
// are taken, so that a proxy reads several at once; in "paced" each comes by
// itself, as tokens do.
func workloads() []workload {
	return []workload{
		{name: "1kb", title: "1 KB prompt, JSON answer", prompt: 1 << 10},
		{name: "32kb", title: "32 KB prompt, JSON answer", prompt: 32 << 10},
		{name: "1mb", title: "1 MB prompt, JSON answer", prompt: 1 << 20},
		{name: "stream", title: "1 KB prompt, stream of 256 chunks", prompt: 1 << 10, chunks: 256},
		{name: "paced", title: "1 KB prompt, 64 chunks, one every 5 ms", prompt: 1 << 10, chunks: 64, every: 5 * time.Millisecond},
		{name: steady, title: "1 KB prompt, stream of 16 chunks, 200 requests a second", prompt: 1 << 10, chunks: 16, rate: 200},
		{name: held, title: "open streams, a token per second", prompt: 1 << 10, chunks: 3600, every: time.Second},
	}
}

func findWorkload(name string) (workload, error) {
	for _, w := range workloads() {
		if w.name == name {
			return w, nil
		}
	}
	return workload{}, fmt.Errorf("workload %q is unknown", name)
}

// request returns a whole HTTP request. The seed makes the prompts of two
// clients differ from the first word on. Engines find the workload's name in
// "user" or before the prompt (see naming).
func (w workload) request(host string, seed int) []byte {
	stream := ""
	if w.chunks > 0 {
		stream = `"stream":true,`
	}
	body := fmt.Sprintf(`{"model":%q,%q:%q,%s"max_tokens":256,"temperature":0.7,"messages":[{"role":"user","content":"%s %s"}]}`,
		model, "user", w.name, stream, w.name, prose(w.prompt-len(w.name)-1, seed))
	return fmt.Appendf(nil, "POST /v1/chat/completions HTTP/1.1\r\nHost: %s\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s",
		host, len(body), body)
}

// prose returns text of n bytes as it stands in a JSON string: words, with a
// line break or a quote in a hundred bytes or so.
func prose(n, seed int) string {
	words := strings.Fields(`the river rises in hills and \"runs\" through a town where people of every age have built small boats \n
		that carry them down to the sea on warm and quiet summer evenings when nobody has any work left to do at home`)
	var b strings.Builder
	fmt.Fprintf(&b, "%03d", seed%1000)
	for i := seed; ; i = i*1103515245 + 12345 {
		word := words[uint32(i)>>16%uint32(len(words))]
		if b.Len()+1+len(word) > n {
			break
		}
		b.WriteString(" " + word)
	}
	return b.String() + strings.Repeat(".", n-b.Len())
}

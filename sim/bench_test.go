package sim

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"
)

// BenchmarkPair tells what a request costs: the engines and the client that
// drives them share the CPU that is reported.
func BenchmarkPair(b *testing.B) {
	for _, dialect := range []string{SGLang, VLLMNixl} {
		for _, size := range []int{1 << 10, 1 << 20} {
			for _, tokens := range []int{16, 256} {
				b.Run(fmt.Sprintf("%s/%dKB/%dtokens", dialect, size>>10, tokens), func(b *testing.B) {
					benchmarkPair(b, dialect, size, tokens)
				})
			}
		}
	}
}

func benchmarkPair(b *testing.B, dialect string, size, tokens int) {
	engines := map[string]*Engine{}
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	for _, role := range []string{Prefill, Decode} {
		e, err := New(Config{
			Dialect: dialect, Role: role, KVTokens: 10_000_000, ContextLength: 1 << 20,
			MaxRunning: 1024,
		})
		if err != nil {
			b.Fatal(err)
		}
		engines[role] = e
		go func() { _ = e.Run(ctx) }()
	}
	client := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 64}}
	defer client.CloseIdleConnections()
	post := func(role, body string) ([]byte, error) {
		resp, err := client.Post(engines[role].URL()+pathCompletions, "application/json", strings.NewReader(body))
		if err != nil {
			return nil, err
		}
		defer resp.Body.Close()
		return io.ReadAll(resp.Body)
	}
	var room atomic.Uint64
	prompt := `"prompt":"` + strings.Repeat("word ", size/5) + `"`
	before, start := cpu(), time.Now()
	b.SetParallelism(8)
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			options := fmt.Sprintf(`,"stream":true,"ignore_eos":true,"max_tokens":%d`, tokens)
			if dialect == SGLang {
				keys := fmt.Sprintf(`,"bootstrap_host":"127.0.0.1","bootstrap_port":%d,"bootstrap_room":%d`,
					engines[Prefill].BootstrapPort(), room.Add(1))
				done := make(chan struct{})
				go func() { _, _ = post(Prefill, "{"+prompt+`,"max_tokens":1`+keys+"}"); close(done) }()
				_, _ = post(Decode, "{"+prompt+options+keys+"}")
				<-done
				continue
			}
			answer, err := post(Prefill, "{"+prompt+`,"max_tokens":1,"kv_transfer_params":{"do_remote_decode":true}}`)
			if err != nil {
				b.Error(err)
				return
			}
			_, params, _ := bytes.Cut(answer, []byte(`"kv_transfer_params":`))
			params, _, _ = bytes.Cut(params, []byte(`,"ec_transfer`))
			_, _ = post(Decode, "{"+prompt+options+`,"kv_transfer_params":`+string(params)+"}")
		}
	})
	b.ReportMetric(float64((cpu()-before).Microseconds())/float64(b.N), "cpu-us/op")
	b.ReportMetric(float64(b.N)/time.Since(start).Seconds(), "req/s")
	for _, e := range engines {
		if v := e.Violations(); len(v) > 0 {
			b.Error(v[0])
		}
	}
}

// cpu returns what the process has used.
func cpu() time.Duration {
	var u syscall.Rusage
	_ = syscall.Getrusage(syscall.RUSAGE_SELF, &u)
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

package router

import (
	"io"
	"net/http/httptest"
	"testing"
	"time"

	"pdrouter/record"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
)

// BenchmarkAccessLine is what the line of a request of one attempt costs, with
// eight candidates in its record, when each gets one.
func BenchmarkAccessLine(b *testing.B) {
	core := zapcore.NewCore(zapcore.NewJSONEncoder(zap.NewProductionEncoderConfig()), zapcore.AddSync(io.Discard), zapcore.InfoLevel)
	log := newAccessLog(zap.New(core))
	now := time.Now()
	rec := record.NewBook(1).Begin(now, "req-ABCDEFGHIJKLMNOPQRSTUVWX")
	rec.Asks(now, record.Asked{Model: "m", Streaming: true})
	rec.Leased(record.Attempt{Leased: now, Choice: record.Choice{Candidates: make([]record.Candidate, 8)}})
	rec.Prefilled(now)
	rec.Token(now)
	rec.Token(now.Add(time.Second))
	r := httptest.NewRequest("POST", "/v1/chat/completions", nil)
	c := &call{
		w: newClient(httptest.NewRecorder(), r, time.Minute), r: r, id: "req-ABCDEFGHIJKLMNOPQRSTUVWX", began: now, rec: rec, dialect: "sglang",
		prefill: "prefill-0", decode: "decode-0", room: 1 << 62, ttft: time.Second,
	}
	b.ReportAllocs()
	for b.Loop() {
		log.write(c, now, 200)
		now = now.Add(time.Second) // so that none is left out
	}
}

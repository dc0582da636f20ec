package admin

import (
	"encoding/json"
	"fmt"
	"math"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"pdrouter/metrics"
	"pdrouter/record"
	"pdrouter/workers"

	"go.uber.org/zap"
)

// unseen is a daemon in which nothing happens.
func unseen() Seen { return seenBy(record.NewBook(4)) }

func seenBy(book *record.Book) Seen {
	return Seen{
		Book: book, Breakers: func() metrics.Breakers { return metrics.Breakers{} }, Draining: func() bool { return false },
		Started: time.Now(), Version: "v1",
	}
}

// A stage is a book, and the API that tells of it.
type stage struct {
	*testing.T
	book *record.Book
	api  http.Handler
	now  time.Time
}

func newStage(t *testing.T, keep int) *stage {
	t.Helper()
	book := record.NewBook(keep)
	return &stage{t, book, New(newDesk(t, nil).registry, seenBy(book), zap.NewNop()).Handler(Access{}), time.Now().Add(-time.Minute)}
}

// ask returns the status and the body of an answer.
func (s *stage) ask(path string) (int, string) {
	w := httptest.NewRecorder()
	s.api.ServeHTTP(w, httptest.NewRequest(http.MethodGet, path, http.NoBody))
	return w.Code, w.Body.String()
}

// list returns the IDs in an answer, and its total.
func (s *stage) list(path string) string {
	s.Helper()
	status, body := s.ask(path)
	var all Requests
	if err := json.Unmarshal([]byte(body), &all); err != nil || status != http.StatusOK {
		s.Fatalf("GET %s = %d %s, %v", path, status, body, err)
	}
	ids := []string{}
	for _, r := range all.Requests {
		ids = append(ids, r.ID)
	}
	return fmt.Sprint(strings.Join(ids, " "), " of ", all.Total)
}

// begin begins a request, and leases it a pair if it names one.
func (s *stage) begin(id, model, prefill, decode string) *record.Request {
	s.now = s.now.Add(time.Second)
	r := s.book.Begin(s.now, id)
	r.Is("chat")
	r.Asks(s.now.Add(10*time.Millisecond), record.Asked{Model: model, Endpoint: "chat", Streaming: true})
	if prefill != "" {
		r.Leased(record.Attempt{
			Prefill: prefill, Decode: decode, PrefillURL: "http://" + prefill, DecodeURL: "http://" + decode, Reserved: math.NaN(),
			Leased: s.now.Add(20 * time.Millisecond), Choice: record.Choice{Reason: "round robin", Candidates: []record.Candidate{
				{Worker: prefill, Role: "prefill", Chosen: true, Blocks: -1, Cost: math.NaN()},
				{Worker: decode, Role: "decode", Chosen: true, Blocks: 0, Cost: 1.5},
			}},
		})
	}
	return r
}

func (s *stage) end(r *record.Request, status int, code string) {
	s.book.End(r, &record.End{At: s.now.Add(time.Second), Status: status, Code: code, Keep: true})
}

func TestRequestsAreFoundByWhatIsAsked(t *testing.T) {
	s := newStage(t, 3)
	s.begin("old", "a", "prefill-0", "decode-0")
	s.begin("waits", "a", "", "")
	s.begin("new", "b", "prefill-1", "decode-0").Prefilled(s.now.Add(time.Second))
	s.book.Begin(s.now, "not-for-an-engine")
	for i, code := range []string{"", "", "client_gone", "decode_upstream_error"} {
		status := []int{200, 200, 499, 502}[i]
		s.end(s.begin(fmt.Sprint("ended-", i), "a", "prefill-0", fmt.Sprint("decode-", i)), status, code)
	}
	tests := map[string]string{
		"/requests":                              "old waits new of 3",
		"/requests?limit=1":                      "old of 3",
		"/requests?model=b":                      "new of 1",
		"/requests?phase=admit":                  "waits of 1",
		"/requests?phase=hand-off":               "new of 1",
		"/requests?worker=prefill-0":             "old of 1",
		"/requests?worker=http://decode-0":       "old new of 2",
		"/requests?older-than=58.5":              "old of 1",
		"/requests?older-than=58500ms":           "old of 1",
		"/requests?older-than=2h":                " of 0",
		"/requests/finished":                     "ended-3 ended-2 ended-1 of 3",
		"/requests/finished?limit=1":             "ended-3 of 3",
		"/requests/finished?status=200":          "ended-1 of 1",
		"/requests/finished?code=client_gone":    "ended-2 of 1",
		"/requests/finished?failed=true&limit=1": "ended-3 of 2",
		"/requests/finished?worker=decode-2":     "ended-2 of 1",
		"/requests/ended-2":                      "ended-2 of 1",
		"/requests/waits":                        "waits of 1",
	}
	for path, want := range tests {
		if got := s.list(path); got != want {
			t.Errorf("GET %s = %q, want %q", path, got, want)
		}
	}
}

func TestRequestsAreAskedRight(t *testing.T) {
	s := newStage(t, 3)
	for path, want := range map[string]int{
		"/requests?models=a": 400, "/requests?limit=0": 400, "/requests?limit=10001": 400, "/requests?limit=x": 400,
		"/requests?older-than=soon": 400, "/requests?model=a&model=b": 400, "/requests?status=200": 400, "/requests?limit=%zz": 400,
		"/requests/finished?status=well": 400, "/requests/finished?failed=maybe": 400, "/requests/finished?phase=admit": 400,
		"/requests/next?after=-1": 400, "/requests/unknown": 404, "/requests/x?number=y": 400, "/requests/a/b": 404,
	} {
		if status, body := s.ask(path); status != want || !strings.Contains(body, `"code":"`) {
			t.Errorf("GET %s = %d %s, want %d", path, status, body, want)
		}
	}
}

// A client may give a request any name that may stand in a header.
func TestRequestsWithOddNames(t *testing.T) {
	s := newStage(t, 8)
	for _, id := range []string{"a/b", "100%", "next", "finished", "q?x=1", "%2F"} {
		s.end(s.begin(id, "a", "prefill-0", "decode-0"), 200, "")
		path := "/requests/"
		for _, b := range []byte(id) {
			path += fmt.Sprintf("%%%02X", b)
		}
		if got := s.list(path); got != id+" of 1" {
			t.Errorf("GET %s = %q", path, got)
		}
	}
}

func TestWhatIsNotKnownIsNull(t *testing.T) {
	s := newStage(t, 1)
	s.begin("x", "a", "prefill-0", "decode-0")
	_, body := s.ask("/requests/x")
	var all struct{ Requests []map[string]any }
	if err := json.Unmarshal([]byte(body), &all); err != nil {
		t.Fatal(err)
	}
	r := all.Requests[0]
	for _, key := range []string{
		"max_tokens", "room", "kv_reserved_tokens", "lacks", "lacked", "ttft_seconds", "itl_seconds", "longest_gap_seconds", "silent_seconds",
		"prompt_tokens", "cached_tokens", "predicted_cached_tokens", "answer_tokens", "status",
	} {
		if v, there := r[key]; !there || v != nil {
			t.Errorf("%s = %v, there %v, want null", key, v, there)
		}
	}
	if !strings.Contains(body, `{"worker":"prefill-0","role":"prefill","chosen":true,"left_out":null,"in_flight":0,"held_blocks":null,"wait_seconds":null,"work_seconds":null,"cost":null}`) ||
		!strings.Contains(body, `{"worker":"decode-0","role":"decode","chosen":true,"left_out":null,"in_flight":0,"held_blocks":0,"wait_seconds":null,"work_seconds":null,"cost":1.5}`) {
		t.Errorf("the candidates are in %s", body)
	}
	if !strings.Contains(body, `"phases":[{"phase":"accept","at_seconds":0,"seconds":0.01},{"phase":"admit","at_seconds":0.01,"seconds":0.01},{"phase":"prefill","at_seconds":0.02,"seconds":`) {
		t.Errorf("the phases are in %s", body)
	}
}

func TestNextTellsOfEachRequestOnce(t *testing.T) {
	s := newStage(t, 8)
	s.begin("before", "a", "", "")
	var n NextRequest
	ask := func(query string) string {
		_, body := s.ask("/requests/next" + query)
		n = NextRequest{}
		if err := json.Unmarshal([]byte(body), &n); err != nil {
			t.Fatal(err)
		}
		if n.Request == nil {
			return ""
		}
		return n.Request.ID
	}
	if got := ask(""); got != "" || n.Number != 1 {
		t.Fatalf("next = %q, number %d, want only the number of the last one", got, n.Number)
	}
	s.end(s.begin("ended", "a", "", ""), 200, "")
	s.begin("other", "b", "", "")
	s.begin("runs", "a", "", "")
	var got []string
	for range 4 {
		got = append(got, ask(fmt.Sprint("?model=a&after=", n.Number)))
	}
	if want := []string{"ended", "runs", "", ""}; !slices.Equal(got, want) || n.Number != 4 {
		t.Errorf("next = %q, number %d, want %q", got, n.Number, want)
	}
}

// Who is asked for status tells what is not known as null, too.
func TestStatusOfUnknownWorkers(t *testing.T) {
	d := newDesk(t, nil)
	if _, err := d.registry.Add(workers.Spec{Role: workers.Decode, URL: "http://127.0.0.1:9"}); err != nil {
		t.Fatal(err)
	}
	w := httptest.NewRecorder()
	d.api.Handler(Access{}).ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/status", http.NoBody))
	for _, want := range []string{
		`"version":"v1"`, `"requests":{"running":0,"phases":{"accept":0,"admit":0,"hand-off":0,"prefill":0,"relay":0}}`, `"lines":[]`, `"pairs":[]`,
		`"kv":{"used_tokens":null,"capacity_tokens":null,"reserved_tokens":null,"seconds_to_full":null,"report_age_seconds":null,`,
	} {
		if !strings.Contains(w.Body.String(), want) {
			t.Errorf("GET /status = %s, want %s in it", w.Body, want)
		}
	}
}

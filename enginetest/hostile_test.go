package enginetest

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"sync"
	"testing"
	"time"
)

// hostile sends what would kill an engine, or steal another one's answer, if it
// reached it.
func (s *suite) hostile() {
	s.step("hostile hand-off keys reach nobody", func(t *testing.T) string {
		body := completion("The capital of Norway is", 5)
		want := s.alone(t, completions, body)
		nulls := object{"do_remote_prefill": true, "do_remote_decode": false, "remote_block_ids": nil, "remote_engine_id": nil, "remote_host": nil, "remote_port": nil}
		others := object{"do_remote_prefill": true, "do_remote_decode": false, "remote_block_ids": [][]int{{1, 2}}, "remote_engine_id": "x", "remote_host": "127.0.0.1", "remote_port": 9, "tp_size": 1}
		keys := map[string]object{
			"null blocks":            {"kv_transfer_params": nulls},
			"no request id":          {"kv_transfer_params": others},
			"of another request":     {"kv_transfer_params": with(others, object{"remote_request_id": "cmpl-other"})},
			"no object":              {"kv_transfer_params": "x"},
			"bootstrap":              {"bootstrap_host": "127.0.0.1", "bootstrap_port": 9, "bootstrap_room": 7},
			"bootstrap, in lists":    {"bootstrap_host": []string{"a"}, "bootstrap_port": []int{1}, "bootstrap_room": []int{7}},
			"bootstrap, of no sense": {"bootstrap_host": nil, "bootstrap_port": -1, "bootstrap_room": "x"},
		}
		for name, k := range keys {
			got, err := read(s.ask(completions, with(body, k)))
			if err != nil || !slices.Equal(got.texts, want) {
				t.Errorf("%s: %q, want %q: %v", name, got.texts, want, err)
			}
		}
		s.stillWell(t)
		return fmt.Sprintf("%d kinds, all answered as without", len(keys))
	})
	s.step("two clients name the same room at once", func(t *testing.T) string {
		room := object{"bootstrap_room": 4711, "bootstrap_host": "127.0.0.1"}
		bodies := []object{completion("The capital of Poland is", 8), completion("Three and four are", 8)}
		var all sync.WaitGroup
		for _, body := range bodies {
			want := s.alone(t, completions, body)
			all.Go(func() {
				if got, err := read(s.ask(completions, with(body, room))); err != nil || !slices.Equal(got.texts, want) {
					t.Errorf("%q, want %q: %v", got.texts, want, err)
				}
			})
		}
		all.Wait()
		s.stillWell(t)
		return "each had its own answer"
	})
}

// stillWell wants both engines to be there and at rest.
func (s *suite) stillWell(t *testing.T) {
	t.Helper()
	if err := errors.Join(s.prefill.well(), s.decode.well()); err != nil {
		t.Fatal(err)
	}
	eventually(t, 5*time.Second, s.atRest)
}

// refusals sends what the client has got wrong.
func (s *suite) refusals() {
	s.step("too long and bad parameters: 400, unknown model: 404, in 1 s", func(t *testing.T) string {
		long := make([]int, s.context+100)
		for i := range long {
			long[i] = 100 + i%1000
		}
		slowest := time.Duration(0)
		for _, tt := range []struct {
			name   string
			body   object
			status int
		}{
			{"too long", completion(long, 4), 400},
			{"too long, streamed", streamed(completion(long, 4)), 400},
			{"temperature", with(completion("x", 4), object{"temperature": -1}), 400},
			{"temperature, streamed", streamed(with(completion("x", 4), object{"temperature": -1})), 400},
			{"another model", with(completion("x", 4), object{"model": "gpt-9"}), 404},
		} {
			r := s.ask(completions, tt.body)
			slowest = max(slowest, r.took)
			if r.status != tt.status || r.took > s.soon() || !json.Valid([]byte(r.body)) {
				t.Errorf("%s: %v, want status %d", tt.name, r, tt.status)
			}
		}
		if r := s.ask(completions, completion("The capital of France is", 3)); r.status != http.StatusOK {
			t.Errorf("the next request: %v", r)
		}
		s.stillWell(t)
		return fmt.Sprintf("5 refused, the slowest in %.0f ms", slowest.Seconds()*1e3)
	})
}

package transfer

import "testing"

func TestHint(t *testing.T) {
	tests := []struct {
		name    string
		body    string
		want    string
		session bool
	}{
		{"none", `{"model":"m"}`, "", false},
		{"the user", `{"user":"u"}`, "u", false},
		{"a number", `{"user":17}`, "17", false},
		{"a cache key before the user", `{"user":"u","prompt_cache_key":"c"}`, "c", false},
		{"a conversation before both", `{"user":"u","prompt_cache_key":"c","conversation":"v"}`, "v", true},
		{"a conversation's id", `{"conversation":{"type":"x", "id" : "v"}}`, "v", true},
		{"SGLang's conversation_id", `{"conversation_id":"v"}`, "v", true},
		{"a session before a conversation", `{"conversation":"v","session_id":"s"}`, "s", true},
		{"SGLang's session", `{"session_params":{"id":"p","rid":"x"},"session_id":"s"}`, "p", true},
		{"SGLang's routing key before all", `{"routing_key":"k","session_params":{"id":"p"}}`, "k", true},
		{"what is empty, null or of another type is none", `{"routing_key":"","session_params":{},"session_id":null,"conversation":{"id":{}},"conversation_id":["v"],"prompt_cache_key":true,"user":"u"}`, "u", false},
		{"of two the last, as engines take it", `{"user":"u","user":"v"}`, "v", false},
		{"a response's id is another in each turn", `{"previous_response_id":"r"}`, "", false},
		{"what is in metadata is the application's", `{"metadata":{"session_id":"s"}}`, "", false},
		{"only at the top", `{"messages":[{"user":"u"}]}`, "", false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			for _, e := range []Endpoint{Chat, Completions, Generate} {
				got, session := parse(t, e, tt.body).Hint()
				if string(got) != tt.want || session != tt.session {
					t.Errorf("Hint = %q, %t, want %q, %t", got, session, tt.want, tt.session)
				}
			}
		})
	}
}

// TestHintsGoUp: they are the client's, and engines read some of them.
func TestHintsGoUp(t *testing.T) {
	checkLegs(t, SGLang{}, parse(t, Chat, `{"user":"u","session_id":"s","user":"v","chat_template_kwargs":{"a":1},"messages":[]}`))
}

func TestHintDoesNotAllocate(t *testing.T) {
	r := parse(t, Chat, `{"messages":[],"session_params":{"id":"p"},"user":"u"}`)
	if n := testing.AllocsPerRun(100, func() { r.Hint() }); n != 0 {
		t.Errorf("Hint makes %v allocations, want 0", n)
	}
}

func TestPriority(t *testing.T) {
	for body, want := range map[string]int64{
		`{"priority":3}`: 3, `{"messages":[],"priority" : -2 }`: -2, `{"priority":1,"priority":2}`: 2, `{"prior\u0069ty":4}`: 4,
	} {
		for _, e := range []Endpoint{Chat, Completions, Generate} {
			if got, ok := parse(t, e, body).Priority(); !ok || got != want {
				t.Errorf("priority of %s = %d, %t, want %d", body, got, ok, want)
			}
		}
	}
	for _, body := range []string{`{}`, `{"priority":null}`, `{"priority":"1"}`, `{"priority":1.5}`, `{"priority":[1]}`, `{"messages":[{"priority":1}]}`} {
		if got, ok := parse(t, Chat, body).Priority(); ok {
			t.Errorf("priority of %s = %d, want none", body, got)
		}
	}
	checkLegs(t, SGLang{}, parse(t, Chat, `{"priority":1e3,"messages":[],"priority":-1}`))
}

package admin

import (
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

// A scripted Reloader says what it is told to.
type scripted struct {
	done Reload
	err  error
	got  string
}

func (s *scripted) Reload() (Reload, error) { return s.done, s.err }

func (s *scripted) Compare(config []byte) (Reload, error) {
	s.got = string(config)
	return s.done, s.err
}

func TestReload(t *testing.T) {
	changes := Reload{Settings: []SettingChange{{Setting: "port", Old: 1, New: 2, NeedsRestart: true}, {Setting: "log-level", Old: "info", New: "debug"}}}
	for name, tt := range map[string]struct {
		reloader Reloader
		path     string
		status   int
		want     string
	}{
		"is answered with what has changed":  {&scripted{done: changes}, "/reload", 200, `{"setting":"port","old":1,"new":2,"needs_restart":true}`},
		"is refused with a line per fault":   {&scripted{err: errors.Join(errors.New("a: no"), errors.New("b: no"))}, "/reload", 422, `"a: no\nb: no","code":"INVALID_CONFIGURATION"`},
		"is refused for a reason of its own": {&scripted{err: &Error{Status: 409, Code: "STOPPING", Message: "late"}}, "/reload", 409, `"STOPPING"`},
		"is not there":                       {nil, "/reload", 501, `"NOT_IMPLEMENTED"`},
		"may be compared with":               {&scripted{done: changes}, "/config/diff", 200, `"log-level"`},
	} {
		t.Run(name, func(t *testing.T) {
			d := newDesk(t, nil)
			if tt.reloader != nil {
				d.api.SetReloader(tt.reloader)
			}
			srv := httptest.NewServer(d.api.Handler(Access{}))
			defer srv.Close()
			resp, err := http.Post(srv.URL+tt.path, "", strings.NewReader("port: 2"))
			if err != nil {
				t.Fatal(err)
			}
			defer resp.Body.Close()
			body, err := io.ReadAll(resp.Body)
			if err != nil || resp.StatusCode != tt.status || !strings.Contains(string(body), tt.want) {
				t.Errorf("answer = %d %s, want %d with %s", resp.StatusCode, body, tt.status, tt.want)
			}
			if s, is := tt.reloader.(*scripted); is && tt.path == "/config/diff" && s.got != "port: 2" {
				t.Errorf("compared with %q", s.got)
			}
		})
	}
	if names := changes.NeedRestart(); len(names) != 1 || names[0] != "port" {
		t.Errorf("a restart is needed for %q", names)
	}
}

// TestAccessMayChange from one request to the next.
func TestAccessMayChange(t *testing.T) {
	d := newDesk(t, nil)
	access := Access{Keys: []string{"old"}}
	h := d.api.HandlerBy(func() Access { return access })
	ask := func(key string) int {
		r := httptest.NewRequest(http.MethodGet, "/workers", http.NoBody)
		r.Header.Set("Authorization", "Bearer "+key)
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		return w.Code
	}
	if got := ask("old"); got != 200 {
		t.Errorf("answer = %d, want 200", got)
	}
	access.Keys = []string{"new"}
	if old, now := ask("old"), ask("new"); old != 401 || now != 200 {
		t.Errorf("answers = %d and %d, want 401 and 200", old, now)
	}
}

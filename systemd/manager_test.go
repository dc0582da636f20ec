package systemd

import (
	"os"
	"path/filepath"
	"slices"
	"testing"
)

// What a unit's properties say, in the types in which D-Bus brings them.
func TestUnitOf(t *testing.T) {
	file := filepath.Join(t.TempDir(), "0.env")
	text := "# GPU 0\nPORT=21000\n; no\nMODEL=\"a b\"\nEXTRA=--tp 2 --port=21005\nBROKEN\n"
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	u := unitOf("e@0.service", map[string]any{
		"LoadState": "loaded", "ActiveState": "active", "MainPID": uint32(7), "LimitNOFILE": uint64(1024), "NeedDaemonReload": true,
		"Environment":      []string{"HOST=127.0.0.1", "PORT=1"},
		"EnvironmentFiles": [][]any{{file, false}, {filepath.Join(t.TempDir(), "none.env"), true}},
		"ExecStart":        [][]any{{"/usr/bin/engine", []string{"engine", "--host", "${HOST}", "--model=${MODEL}", "--port", "${PORT}", "$EXTRA", "$NONE"}, false}},
	})
	if u.Load != "loaded" || u.Active != "active" || u.MainPID != 7 || u.FileLimit != 1024 || !u.NeedsReload || len(u.Unread) != 0 {
		t.Errorf("unit = %+v", u)
	}
	want := []string{"engine", "--host", "127.0.0.1", "--model=a b", "--port", "21000", "--tp", "2", "--port=21005"}
	if got := u.Arguments(); !slices.Equal(got, want) {
		t.Errorf("Arguments() = %q, want %q", got, want)
	}
	for option, want := range map[string]string{"--port": "21005", "--model": "a b", "--host": "127.0.0.1", "--none": ""} {
		if got := u.Option(option); got != want {
			t.Errorf("Option(%s) = %q, want %q", option, got, want)
		}
	}
}

func TestWhatAUnitDoesNotSay(t *testing.T) {
	u := unitOf("x.service", map[string]any{"EnvironmentFiles": [][]any{{"/proc/1/mem/none", false}, {}}, "ExecStart": "?"})
	if len(u.Arguments()) != 0 || !slices.Equal(u.Unread, []string{"/proc/1/mem/none"}) {
		t.Errorf("unit = %+v", u)
	}
	if got := expand("${A", nil); got != "${A" {
		t.Errorf("a variable that is not closed = %q", got)
	}
	if got := expand("${A}${A}", map[string]string{"A": "${A}"}); got != "${A}${A}" {
		t.Errorf("a value with braces = %q", got)
	}
}

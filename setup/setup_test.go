package setup

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

func TestParseRange(t *testing.T) {
	for _, tt := range []struct {
		text string
		want []int // nil: refused
	}{
		{"0-3", []int{0, 1, 2, 3}},
		{"0-1,4, 6-7", []int{0, 1, 4, 6, 7}},
		{"5", []int{5}},
		{"", nil},
		{"3-0", nil},
		{"0-3,2", nil},
		{"-1", nil},
		{"0-99999999", nil},
	} {
		got, err := ParseRange(tt.text)
		if !slices.Equal(got, tt.want) || (err == nil) != (tt.want != nil) {
			t.Errorf("ParseRange(%q) = %v, %v, want %v", tt.text, got, err, tt.want)
		}
		if err != nil {
			continue
		}
		if again, _ := ParseRange(FormatRange(got)); !slices.Equal(again, got) {
			t.Errorf("FormatRange(%v) = %q", got, FormatRange(got))
		}
	}
}

func TestReadGPUs(t *testing.T) {
	node := func(bus string) int { return len(bus) }
	got, err := readGPUs([]byte("1, NVIDIA GB200, [N/A], b\n0, NVIDIA H100 PCIe, 81559, aa\n"), node)
	want := []GPU{{0, "NVIDIA H100 PCIe", 81559, 2}, {1, "NVIDIA GB200", 0, 1}}
	if err != nil || !slices.Equal(got, want) {
		t.Errorf("readGPUs = %v, %v, want %v", got, err, want)
	}
	for _, out := range []string{"No devices were found\n", "x, a, 1, b\n", "0, a\n", "0, \"a"} {
		if got, err := readGPUs([]byte(out), node); err == nil {
			t.Errorf("readGPUs(%q) = %v", out, got)
		}
	}
}

func TestDifference(t *testing.T) {
	lines := func(text string) []string { return strings.Split(text, " ") }
	for _, tt := range []struct{ a, b, want string }{
		{"a b c", "a b c", ""},
		{"a b c", "a x c", "-b +x"},
		{"a", "a b", "+b"},
		{"a b c d", "b d e", "-a -c +e"},
	} {
		if got := strings.Join(difference(lines(tt.a), lines(tt.b)), " "); got != tt.want {
			t.Errorf("difference(%q, %q) = %q, want %q", tt.a, tt.b, got, tt.want)
		}
	}
}

// What is there is never lost.
func TestPut(t *testing.T) {
	f := File{filepath.Join(t.TempDir(), "a/b"), "one\n"}
	if kept, err := Put(f, false); err != nil || kept != "" {
		t.Fatalf("Put = %q, %v", kept, err)
	}
	if _, err := Put(File{f.Path, "two\n"}, false); err == nil {
		t.Error("a file was overwritten")
	}
	for i, text := range []string{"two\n", "three\n"} {
		kept, err := Put(File{f.Path, text}, true)
		was, _ := os.ReadFile(kept)
		if want := []string{"one\n", "two\n"}[i]; err != nil || string(was) != want {
			t.Errorf("kept %q in %s, %v, want %q", was, kept, err, want)
		}
	}
	if state, _, err := Compare(File{f.Path, "three\n"}); state != Same || err != nil {
		t.Errorf("Compare = %v, %v", state, err)
	}
}

// TestExampleIsReplaced: what the package brings is no configuration of anybody's,
// and is kept all the same.
func TestExampleIsReplaced(t *testing.T) {
	brought, err := os.ReadFile("../deploy/package/pdrouter.yaml")
	if err != nil {
		t.Fatal(err)
	}
	f := File{filepath.Join(t.TempDir(), "pdrouter.yaml"), "ours\n"}
	if err := os.WriteFile(f.Path, brought, 0o600); err != nil {
		t.Fatal(err)
	}
	if state, _, err := Compare(f); state != Shipped || err != nil {
		t.Fatalf("the example is taken for state %d, %v", state, err)
	}
	kept, err := Put(f, true)
	if now, _ := os.ReadFile(kept); err != nil || string(now) != string(brought) {
		t.Errorf("the example is not kept: %v", err)
	}
	if state, _, err := Compare(f); state != Same || err != nil {
		t.Errorf("what was written is taken for state %d, %v", state, err)
	}
}

func TestQuoted(t *testing.T) {
	for value, want := range map[string]string{
		"/models/a-b_c.d": "/models/a-b_c.d", "a b": `"a b"`, `a"$x`: `"a\"\$x"`, "": "",
	} {
		if got := quoted(value); got != want {
			t.Errorf("quoted(%q) = %s, want %s", value, got, want)
		}
	}
}

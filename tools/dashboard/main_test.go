package main

import (
	"bytes"
	"flag"
	"os"
	"testing"
)

// TestPageIsCheckedIn: the file that is shipped is what this program makes.
// After a change: go test ./dashboard -update.
func TestPageIsCheckedIn(t *testing.T) {
	const path = "../../deploy/grafana/pdrouter.json"
	want, err := page()
	if err != nil {
		t.Fatal(err)
	}
	if *update {
		if err := os.WriteFile(path, want, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	got, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, want) {
		t.Errorf("%s is not what this program makes; run this test with -update and look at the change", path)
	}
}

var update = flag.Bool("update", false, "write the file that would be compared")

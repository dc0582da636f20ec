package survey

import (
	"os"
	"testing"
)

func TestIsHere(t *testing.T) {
	name, err := os.Hostname()
	if err != nil {
		t.Fatal(err)
	}
	for host, want := range map[string]bool{
		"127.0.0.1": true, "127.8.8.8": true, "::1": true, "localhost": true, name: true,
		"192.0.2.1": false, "2001:db8::1": false, "elsewhere.example": false, "": false,
	} {
		if got := IsHere(host); got != want {
			t.Errorf("IsHere(%q) = %v, want %v", host, got, want)
		}
	}
}

package sim

import (
	"net"
	"strings"
	"testing"
)

func TestValidateNamesAllFaults(t *testing.T) {
	cfg := Config{Dialect: "trtllm", Role: "both", KVTokens: 5, BlockSize: 10, MaxRunning: -1, LoadFailure: "ignore"}
	err := cfg.Validate()
	if err == nil {
		t.Fatal("Validate() = nil")
	}
	for _, part := range []string{`dialect "trtllm"`, `role "both"`, "less than one block", "max running -1", `policy "ignore"`} {
		if !strings.Contains(err.Error(), part) {
			t.Errorf("Validate() = %v, which lacks %q", err, part)
		}
	}
}

func TestNewSaysWhichAddressIsTaken(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	taken := l.Addr().String()
	for _, cfg := range []Config{
		{Dialect: SGLang, Role: Decode, Addr: taken},
		{Dialect: SGLang, Role: Prefill, BootstrapAddr: taken},
	} {
		if _, err := New(cfg); err == nil || !strings.Contains(err.Error(), taken) {
			t.Errorf("New(%+v) = %v, want an error that names %s", cfg, err, taken)
		}
	}
}

func TestDecodeAssumesAPort(t *testing.T) {
	for addr, want := range map[string]int{"": 8998, "127.0.0.1:7000": 7000} {
		e, err := New(Config{Dialect: SGLang, Role: Decode, BootstrapAddr: addr})
		if err != nil {
			t.Fatal(err)
		}
		if got := e.BootstrapPort(); got != want {
			t.Errorf("BootstrapPort() with %q = %d, want %d", addr, got, want)
		}
		e.api.Close()
	}
}

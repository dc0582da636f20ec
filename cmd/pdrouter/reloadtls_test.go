package main

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"pdrouter/sim"
	"pdrouter/workers"
)

// TestReloadOfCertificates: who comes after it is shown the new one.
func TestReloadOfCertificates(t *testing.T) {
	cert, key := newCert(t)
	f := newReloadedFleet(t, sim.VLLMNixl, "tls-cert-path", cert, "tls-key-path", key)
	old := newTLSClient(t, cert, 1)
	f.wantStatus(old, "the first certificate", 200, "")
	other, otherKey := newCert(t)
	for from, to := range map[string]string{other: cert, otherKey: key} {
		text, err := os.ReadFile(from)
		if err != nil {
			t.Fatal(err)
		}
		put(t, to, string(text))
	}
	done := f.reload()
	if len(done.Settings) != 1 || !strings.Contains(fmt.Sprint(done.Settings[0].New), "good until") {
		t.Errorf("changed %v, want the certificate", done.Settings)
	}
	f.wantStatus(newTLSClient(t, other, 1), "the second certificate", 200, "")
	f.wantStatus(old, "a connection from before", 200, "")
	put(t, key, "nonsense")
	if _, err := f.Reload(); err == nil || !strings.Contains(err.Error(), "tls-key-path") {
		t.Errorf("Reload = %v, want a key that is none", err)
	}
	f.wantStatus(newTLSClient(t, other, 2), "the second certificate", 200, "")
}

// TestReloadOfAuthorities: engines behind TLS are trusted by the authorities in
// force.
func TestReloadOfAuthorities(t *testing.T) {
	f := newReloadedFleet(t, sim.VLLMNixl)
	base, authority := overTLS(t, f.decode[0])
	f.reload("decode", "["+base+"]")
	s := func() workers.Status { all := f.registry.Statuses(); return all[len(all)-1] }
	if !eventually(func() bool { return strings.Contains(s().Reason, "unknown authority") }) {
		t.Errorf("the worker is %v: %s", s().State, s().Reason)
	}
	f.reload("ca-cert-paths", authority)
	if !eventually(func() bool { return s().State == workers.Ready }) {
		t.Errorf("the worker is %v: %s", s().State, s().Reason)
	}
	f.wantStatus(newClient(t), "over TLS", 200, "")
}

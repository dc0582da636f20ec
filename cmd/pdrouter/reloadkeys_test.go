package main

import (
	"fmt"
	"net/http"
	"os"
	"strings"
	"testing"

	"pdrouter/sim"
)

// TestReloadOfKeyFiles: keys come and go with their file, without a moment at
// which all are let in, and the result says so without a key.
func TestReloadOfKeyFiles(t *testing.T) {
	path := writeSecret(t, "keys", "alice:"+aliceKey)
	f := newReloadedFleet(t, sim.VLLMNixl, "api-key-file", path)
	client := newClient(t)
	f.wantStatus(client, "alice", 200, aliceKey)
	f.wantStatus(client, "bob, who is to come", 401, bobKey)

	put(t, path, "alice:"+aliceKey+"\nbob:"+bobKey)
	done := fmt.Sprint(f.reload().Settings)
	if !strings.Contains(done, path+", with other keys") || strings.Contains(done, "secret") {
		t.Errorf("changed %s, want that the file has other keys", done)
	}
	f.wantStatus(client, "alice", 200, aliceKey)
	f.wantStatus(client, "bob", 200, bobKey)
	if again := f.reload().Settings; len(again) != 0 {
		t.Errorf("changed %v, want nothing", again)
	}

	put(t, path, "# nobody\n")
	if _, err := f.Reload(); err == nil || !strings.Contains(err.Error(), "holds no key") {
		t.Errorf("Reload = %v, want a file without a key", err)
	}
	f.wantStatus(client, "bob, after a file without keys", 200, bobKey)
	f.wantStatus(client, "nobody, after a file without keys", 401, "")

	put(t, path, "bob:"+bobKey)
	f.reload()
	f.wantStatus(client, "alice, who is gone", 401, aliceKey)
}

// TestDiffShowsNoKey, and finds out without one whether they are others.
func TestDiffShowsNoKey(t *testing.T) {
	f := newReloadedFleet(t, sim.VLLMNixl)
	f.reload("api-key", "["+aliceKey+"]", "tenant-api-key", "[bob:"+bobKey+"]", "worker-api-key", workerKey)
	diffOf := func() string {
		t.Helper()
		out, err := runCommand(t, "check", "--config", f.path, "--diff")
		if err != nil {
			t.Fatal(err)
		}
		for _, secret := range []string{aliceKey, bobKey, workerKey, "sha256"} {
			if strings.Contains(out, secret) {
				t.Errorf("the difference shows a key: %s", out)
			}
		}
		return out
	}
	if out := diffOf(); out != "Nothing has changed.\n" {
		t.Errorf("with the same keys: %s", out)
	}
	f.set("api-key", "[another-key]", "tenant-api-key", "[carol:"+bobKey+"]")
	if out := diffOf(); !strings.Contains(out, "api-key: *** -> ***") || !strings.Contains(out, "tenant-api-key: bob:*** -> carol:***") {
		t.Errorf("with other keys: %s", out)
	}
}

// TestReloadAsksForCertificates that were not asked for before, and is told when
// the authorities are others.
func TestReloadAsksForCertificates(t *testing.T) {
	servers, clients, others := newAuthority(t, "servers"), newAuthority(t, "clients"), newAuthority(t, "others")
	cert, key := servers.issue(t, "router")
	f := newReloadedFleet(t, sim.VLLMNixl, "tls-cert-path", cert, "tls-key-path", key)
	status := func(a *authority) int {
		client := showing(t, servers, nil, 2)
		if a != nil {
			client = showing(t, servers, a.client(t, nil), 2)
		}
		defer client.CloseIdleConnections()
		status, _ := get(client, f.base+"/readiness")
		return status
	}
	if got := status(nil); got != http.StatusOK {
		t.Errorf("nobody asks for a certificate: %d", got)
	}
	f.reload("tls-client-ca-paths", "["+clients.path+"]")
	if with, without := status(clients), status(nil); with != http.StatusOK || without != 0 {
		t.Errorf("with a certificate %d, without %d", with, without)
	}
	text, err := os.ReadFile(others.path)
	if err != nil {
		t.Fatal(err)
	}
	put(t, clients.path, string(text))
	if done := fmt.Sprint(f.reload().Settings); !strings.Contains(done, "with other authorities") {
		t.Errorf("changed %s, want that the authorities are others", done)
	}
	if old, now := status(clients), status(others); old != 0 || now != http.StatusOK {
		t.Errorf("by the authority before %d, by the one in force %d", old, now)
	}
}

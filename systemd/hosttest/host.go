package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"
)

const (
	unit       = "pdrouter.service"
	configPath = "/etc/pdrouter/pdrouter.yaml"
	model      = "sim-model"

	// secretKey is what clients send. It must not be found in the journal.
	secretKey = "sk-hosttest-3f6c1c0e"
)

// A host is the booted system, seen from within.
type host struct {
	ctx    context.Context //nolint:containedctx // it is that of the whole run
	before map[string]bool // files with the package's name before it was installed
}

// output runs a command and returns what it printed; its complaints are part of
// the error.
func (h *host) output(name string, args ...string) (string, error) {
	ctx, cancel := context.WithTimeout(h.ctx, 90*time.Second)
	defer cancel()
	out, err := exec.CommandContext(ctx, name, args...).CombinedOutput()
	text := strings.TrimSpace(string(out))
	if err != nil {
		return text, fmt.Errorf("%s %s: %w: %s", name, strings.Join(args, " "), err, text)
	}
	return text, nil
}

// do runs commands, each given as words, until one fails.
func (h *host) do(lines ...string) error {
	for _, line := range lines {
		words := strings.Fields(line)
		if _, err := h.output(words[0], words[1:]...); err != nil {
			return err
		}
	}
	return nil
}

// property is what systemd says of a unit.
func (h *host) property(of, name string) string {
	text, _ := h.output("systemctl", "show", "-P", name, of)
	return text
}

// mainPID is the process of the router.
func (h *host) mainPID() string { return h.property(unit, "MainPID") }

// write writes a file of the system.
func write(path, text string, mode os.FileMode) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	return errors.Join(os.WriteFile(path, []byte(text), mode), os.Chmod(path, mode))
}

// page fetches a page of the router's.
func page(url string) (string, error) {
	client := &http.Client{Timeout: 5 * time.Second}
	defer client.CloseIdleConnections()
	resp, err := client.Get(url) //nolint:noctx // it is bounded by its timeout
	if err != nil {
		return "", err
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err == nil && resp.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s: status %d: %.200s", url, resp.StatusCode, text)
	}
	return string(text), err
}

// has reports whether the installed program has a command.
func (h *host) has(command string) bool {
	text, err := h.output("/usr/bin/pdrouter", "--help")
	return err == nil && strings.Contains(text, "\n  "+command+" ")
}

// An engine is a simulated one, as a unit.
type engine struct {
	worker, role    string
	port, bootstrap int
}

func engines() []engine {
	return []engine{
		{"prefill-0", "prefill", 21000, 21200},
		{"prefill-1", "prefill", 21001, 21201},
		{"decode-0", "decode", 21100, 0},
		{"decode-1", "decode", 21101, 0},
	}
}

func (e engine) unit() string { return fmt.Sprintf("engine@%s.service", e.worker) }

// engineUnit is that of the examples, with a simulated engine in it.
const engineUnit = `[Unit]
Before=pdrouter.service
PartOf=pdrouter.target
[Service]
Type=exec
DynamicUser=yes
EnvironmentFile=/etc/engines/%i.env
ExecStart=/usr/bin/pdrouter sim $ARGS
ExecStartPost=-+/usr/bin/pdrouter undrain %i
ExecStop=-+/usr/bin/pdrouter drain %i --wait
`

// startEngines starts them.
func (h *host) startEngines() error {
	faults := write("/etc/systemd/system/engine@.service", engineUnit, 0o644)
	for _, e := range engines() {
		args := fmt.Sprintf("--dialect sglang --role %s --port %d --decode-us-per-token 5000", e.role, e.port)
		if e.bootstrap != 0 {
			args += fmt.Sprintf(" --bootstrap-port %d", e.bootstrap)
		}
		faults = errors.Join(faults, write("/etc/engines/"+e.worker+".env", "ARGS="+args+"\n", 0o644))
	}
	for _, e := range engines() {
		faults = errors.Join(faults, h.do("systemctl start "+e.unit()))
	}
	return faults
}

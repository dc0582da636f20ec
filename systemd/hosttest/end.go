package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"
)

// tries is how often systemd has started the router so far.
func (h *host) tries() (int, error) {
	text, err := h.output("journalctl", "-u", unit, "--no-pager", "-o", "cat", "--identifier=systemd", "--grep", "^Starting ")
	if err != nil {
		return 0, err
	}
	return len(strings.Split(text, "\n")), nil
}

// maxTries is TriggerLimitBurst= of both sockets, and the restart itself.
const maxTries = 11

// wrongConfig restarts the router with a configuration that it cannot take, while
// clients connect, and then with the right one again.
func (h *host) wrongConfig() (string, error) {
	right, err := os.ReadFile(configPath)
	if err != nil {
		return "", err
	}
	before, err := h.tries()
	if err != nil {
		return "", err
	}
	if err := write(configPath, string(right)+"prot: 8080\n", 0o644); err != nil {
		return "", err
	}
	if h.do("systemctl restart pdrouter") == nil {
		return "", errors.New("it starts with a key that it does not know")
	}
	var counts [2]int
	for i := range counts {
		for range 20 { // clients that come and go, for 2 s
			answered("127.0.0.1:30001")
			time.Sleep(100 * time.Millisecond)
		}
		if counts[i], err = h.tries(); err != nil {
			return "", err
		}
	}
	status, restarts := h.property(unit, "ExecMainStatus"), h.property(unit, "NRestarts")
	line, _ := h.output("journalctl", "-u", unit, "--no-pager", "-o", "cat", "-n", "40", "--grep", "unknown key")
	line, _, _ = strings.Cut(line, "\n")
	back := errors.Join(write(configPath, string(right), 0o644), h.do("systemctl restart pdrouter"))
	_, answers := h.firstAnswer()
	listening := h.property("pdrouter.socket", "ActiveState")
	figure := fmt.Sprintf("%d starts; %s", counts[1]-before, line)
	switch {
	case status != "78":
		return figure, fmt.Errorf("it ended with status %s", status)
	case restarts != "0" || counts[0] != counts[1] || counts[1]-before > maxTries:
		return figure, fmt.Errorf("it is tried again and again: %s restarts, %d starts", restarts, counts[1]-before)
	case !strings.Contains(line, configPath+":") || !strings.Contains(line, "prot"):
		return figure, errors.New("the journal does not name file, line and key")
	case listening != "active":
		return figure, fmt.Errorf("its socket is %s after a start that went well", listening)
	}
	return figure, errors.Join(back, answers)
}

// journal reads all that the router has said.
func (h *host) journal() (string, error) {
	text, err := h.output("journalctl", "-u", unit, "--no-pager", "-o", "json", "--all")
	if err != nil {
		return "", err
	}
	entries, levels := 0, map[int]int{}
	for line := range strings.Lines(text) {
		var e struct {
			Message    any    `json:"MESSAGE"` // bytes as numbers if they are no text
			Priority   string `json:"PRIORITY"`
			Identifier string `json:"SYSLOG_IDENTIFIER"`
		}
		if err := json.Unmarshal([]byte(line), &e); err != nil {
			return "", fmt.Errorf("an entry that is no JSON: %w", err)
		}
		if e.Identifier != "pdrouter" {
			continue
		}
		entries++
		message, isText := e.Message.(string)
		level, err := strconv.Atoi(e.Priority)
		if !isText || err != nil || strings.HasPrefix(message, "<") {
			return "", fmt.Errorf("an entry without text or priority: %.200s", line)
		}
		levels[level]++
		for _, secret := range []string{secretKey, "PRIVATE KEY"} {
			if strings.Contains(line, secret) {
				return "", fmt.Errorf("a secret is in the journal: %.300s", line)
			}
		}
	}
	if dropped, err := h.output("journalctl", "--no-pager", "-o", "cat", "--grep", "Suppressed .* messages from pdrouter"); err == nil {
		return "", fmt.Errorf("the journal has dropped lines: %.200s", dropped)
	}
	figure := fmt.Sprintf("%d entries: %d err, %d warning, %d info", entries, levels[3], levels[4], levels[6])
	if len(levels) < 2 {
		return figure, errors.New("all have one priority")
	}
	return figure, nil
}

func (h *host) stopAll() (string, error) {
	if err := h.do("systemctl start pdrouter.target", "systemctl stop pdrouter.target"); err != nil {
		return "", err
	}
	err := eventually(h.ctx, 10*time.Second, func() error { // systemctl waits for the target only
		for _, addr := range []string{"127.0.0.1:30001", "127.0.0.1:29001"} {
			if answered(addr) {
				return fmt.Errorf("%s is still listened at", addr)
			}
		}
		for _, u := range []string{unit, "pdrouter.socket", engines()[0].unit()} {
			if state := h.property(u, "ActiveState"); state != "inactive" {
				return fmt.Errorf("%s is %s", u, state)
			}
		}
		return nil
	})
	return "", errors.Join(err, h.do("systemctl start pdrouter.target"))
}

func (h *host) purge() (string, error) {
	if err := h.do("systemctl start pdrouter", "dpkg --purge pdrouter"); err != nil {
		return "", err
	}
	var left []string
	for path := range named() {
		if !h.before[path] {
			left = append(left, path)
		}
	}
	if listed, _ := h.output("systemctl", "list-units", "--all", "--plain", "--no-legend", "pdrouter*"); listed != "" {
		left = append(left, listed)
	}
	if answered("127.0.0.1:30001") {
		left = append(left, "somebody who listens at port 30001")
	}
	if len(left) > 0 {
		return "", fmt.Errorf("left behind: %s", strings.Join(left, ", "))
	}
	return "", nil
}

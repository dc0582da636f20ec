package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"
)

// named returns the files and directories of the system that have the package's
// name, outside of what this test has brought along.
func named() map[string]bool {
	all := map[string]bool{}
	for _, top := range []string{"/etc", "/usr", "/var", "/run", "/opt"} {
		_ = filepath.WalkDir(top, func(path string, d os.DirEntry, err error) error {
			if err != nil || path == inside || strings.HasPrefix(path, "/run/systemd/") || path == "/var/lib/docker" || path == "/var/cache/man" {
				return filepath.SkipDir
			}
			if strings.Contains(d.Name(), "pdrouter") {
				all[path] = true
			}
			return nil
		})
	}
	return all
}

func (h *host) install() (string, error) {
	h.before = named()
	if err := h.do("dpkg -i " + inside + "/old.deb"); err != nil {
		return "", err
	}
	for _, u := range []string{unit, "pdrouter.socket", "pdrouter-metrics.socket", "pdrouter.target"} {
		if state := h.property(u, "ActiveState"); state != "inactive" {
			return "", fmt.Errorf("%s is %s after the package was installed", u, state)
		}
	}
	return h.output("/usr/bin/pdrouter", "--version")
}

func (h *host) verify() (string, error) {
	for _, u := range []string{unit, "pdrouter@blue.service", "pdrouter.socket", "pdrouter-metrics.socket", "pdrouter.target"} {
		text, err := h.output("systemd-analyze", "verify", u)
		if err != nil || strings.Contains(text, "pdrouter") {
			return "", fmt.Errorf("%s: %w %s", u, err, text)
		}
	}
	return "", nil
}

func (h *host) exposure() (string, error) {
	text, err := h.output("systemd-analyze", "security", "--threshold=15", "--no-pager", unit)
	_, line, _ := strings.Cut(text, "→ ")
	return line, err
}

func (h *host) start() (string, error) {
	packaged, err := os.ReadFile(configPath)
	if err != nil {
		return "", err
	}
	// What an operator has written there must outlive the upgrade.
	mine := string(packaged) + "\n# the operator's own\napi-key: " + secretKey + "\n"
	if err := errors.Join(write(configPath, mine, 0o644), h.startEngines()); err != nil {
		return "", err
	}
	began := time.Now()
	if err := h.do("systemctl enable --now pdrouter"); err != nil {
		return "", err
	}
	took := time.Since(began)
	status := h.property(unit, "StatusText")
	if h.property(unit, "UnitFileState") != "enabled" || !strings.HasPrefix(status, "ready 2/2 prefill, 2/2 decode") {
		return "", fmt.Errorf("it is %s, %q", h.property(unit, "UnitFileState"), status)
	}
	return fmt.Sprintf("%.2f s; %q", took.Seconds(), status), nil
}

func (h *host) firstAnswer() (string, error) {
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	for n := range 4 {
		if _, _, err := ask(h.ctx, client, n+1); err != nil {
			return "", err
		}
	}
	return "", nil
}

const prometheusConfig = `global: {scrape_interval: 500ms}
scrape_configs:
- job_name: pdrouter
  static_configs: [{targets: ["127.0.0.1:29001"]}]
`

// scrape has a Prometheus scrape the router until the end of the run.
func (h *host) scrape() (string, error) {
	program := inside + "/prometheus"
	if _, err := exec.LookPath(program); err != nil {
		return "", fmt.Errorf("there is no Prometheus: run make e2e-setup: %w", err)
	}
	err := errors.Join(write("/etc/prometheus-hosttest.yml", prometheusConfig, 0o644),
		h.do("systemd-run --quiet --unit=scraper --property=DynamicUser=yes --property=StateDirectory=scraper "+program+
			" --config.file=/etc/prometheus-hosttest.yml --storage.tsdb.path=/var/lib/scraper --web.listen-address=127.0.0.1:9090 --log.level=error"))
	if err != nil {
		return "", err
	}
	figure := ""
	err = eventually(h.ctx, 30*time.Second, func() error {
		up, err := query(`up{job="pdrouter"}`)
		if err != nil || up != "1" {
			return fmt.Errorf("up is %q: %w", up, err)
		}
		figure, err = query(`count({job="pdrouter"})`)
		return err
	})
	return figure + " series", err
}

// query asks Prometheus for a single value.
func query(expression string) (string, error) {
	text, err := page("http://127.0.0.1:9090/api/v1/query?query=" + url.QueryEscape(expression))
	if err != nil {
		return "", err
	}
	var answer struct {
		Data struct{ Result []struct{ Value [2]any } }
	}
	if err := json.Unmarshal([]byte(text), &answer); err != nil || len(answer.Data.Result) != 1 {
		return "", fmt.Errorf("%s: not one value: %.200s", expression, text)
	}
	return fmt.Sprint(answer.Data.Result[0].Value[1]), nil
}

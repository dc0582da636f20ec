package main

import (
	"errors"
	"fmt"
	"strconv"
	"strings"

	"pdrouter/workers"
)

// A workerList keeps the workers of one role among specs.
type workerList struct {
	specs *[]workers.Spec
	role  workers.Role
}

// Set adds the worker that text names: URL, or for prefill also URL,PORT and
// URL PORT, where PORT may be the word none. A worker with a fault is kept all
// the same, so that its role is not said to be missing as well.
func (l *workerList) Set(text string) error {
	url, port, given := text, "", false
	if i := strings.IndexAny(text, ", "); i >= 0 {
		url, port, given = text[:i], text[i+1:], true
	}
	spec := workers.Spec{Role: l.role, URL: url}
	defer func() { *l.specs = append(*l.specs, spec) }()
	if !given {
		return nil
	}
	if l.role == workers.Decode {
		return fmt.Errorf("%q after the URL: a decode worker has no bootstrap port", port)
	}
	var err error
	spec.BootstrapPort, err = parseBootstrapPort(port)
	return err
}

func (l *workerList) String() string {
	var urls []string
	for _, s := range l.own() {
		urls = append(urls, s.URL)
	}
	return strings.Join(urls, " ")
}

// Type returns what --help calls the value.
func (l *workerList) Type() string {
	if l.role == workers.Prefill {
		return "URL [PORT|none]"
	}
	return "URL"
}

// own returns the workers of the list's role.
func (l *workerList) own() []workers.Spec {
	var own []workers.Spec
	for _, s := range *l.specs {
		if s.Role == l.role {
			own = append(own, s)
		}
	}
	return own
}

// plain returns one item per worker: its URL, or a map if there is more to say.
func (l *workerList) plain() any { return l.items(func(string) string { return redacted }) }

// items is plain with what is shown in place of a key.
func (l *workerList) items(show func(key string) string) any {
	items := []any{}
	for _, s := range l.own() {
		items = append(items, plainWorker(s, show))
	}
	return items
}

// workerKeys are the keys of a worker in the file.
func workerKeys(role workers.Role) []string {
	if role == workers.Prefill {
		return []string{"url", "bootstrap-port", "bootstrap-host", "api-key"}
	}
	return []string{"url", "api-key"}
}

// setWorkerKey sets what key of a worker in the file stands for.
func setWorkerKey(spec *workers.Spec, key, text string) error {
	var err error
	switch key {
	case "url":
		spec.URL = text
	case "bootstrap-port":
		spec.BootstrapPort, err = parseBootstrapPort(text)
	case "bootstrap-host":
		spec.BootstrapHost = text
	case "api-key":
		spec.APIKey, err = parseSecret(text)
	}
	return err
}

// plainWorker is the inverse of setWorkerKey, but for the key, which show shows.
func plainWorker(s workers.Spec, show func(key string) string) any {
	fields := document{{Name: "url", Value: s.URL}}
	switch {
	case s.BootstrapPort == workers.BootstrapNone:
		fields = append(fields, field{Name: "bootstrap-port", Value: "none"})
	case s.BootstrapPort != 0:
		fields = append(fields, field{Name: "bootstrap-port", Value: s.BootstrapPort})
	}
	if s.BootstrapHost != "" {
		fields = append(fields, field{Name: "bootstrap-host", Value: s.BootstrapHost})
	}
	if s.APIKey != "" {
		fields = append(fields, field{Name: "api-key", Value: show(s.APIKey)})
	}
	if len(fields) == 1 {
		return s.URL
	}
	return fields
}

func parseBootstrapPort(text string) (int, error) {
	if strings.EqualFold(text, "none") {
		return workers.BootstrapNone, nil
	}
	port, err := strconv.Atoi(text)
	switch {
	case err != nil:
		return 0, fmt.Errorf("%q is neither a bootstrap port nor none", text)
	case port == 0:
		return 0, errors.New(`bootstrap port "0": write none if there is no port`)
	case port < 0 || port > 65535:
		return 0, fmt.Errorf("bootstrap port %q is not between 1 and 65535", text)
	}
	return port, nil
}

package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strconv"
	"strings"
	"time"

	"pdrouter/setup"
	"pdrouter/survey"
	"pdrouter/systemd"
)

// probeTime bounds the questions to one port.
const probeTime = 3 * time.Second

// A probe is a place at which an engine may run.
type probe struct {
	role, url string
	named     bool // by itself, so that it is a fault if nobody is there
}

// parseProbe reads [ROLE=][HOST:]PORTS.
func parseProbe(text string) ([]probe, error) {
	role, place, given := strings.Cut(text, "=")
	if !given {
		role, place = "", text
	}
	if given && role != "prefill" && role != "decode" {
		return nil, fmt.Errorf("--probe: %q: the role is prefill or decode", text)
	}
	host, ports := "127.0.0.1", place
	if i := strings.LastIndexByte(place, ':'); i >= 0 {
		host, ports = cmp.Or(strings.Trim(place[:i], "[]"), host), place[i+1:]
	}
	numbers, err := setup.ParseRange(ports)
	if err != nil {
		return nil, fmt.Errorf("--probe: %q is not of the form [ROLE=][HOST:]PORTS, as in decode=10.0.0.2:21100-21103", text)
	}
	var all []probe
	for _, port := range numbers {
		all = append(all, probe{role, "http://" + net.JoinHostPort(host, strconv.Itoa(port)), len(numbers) == 1})
	}
	return all, nil
}

// running finds the engines that run at the ports, and in the units, that o names.
func (o *initOrder) running(ctx context.Context, shown *screen) ([]setup.Running, error) {
	var probes []probe
	for _, text := range o.probe {
		more, err := parseProbe(text)
		if err != nil {
			return nil, asConfigFault(err)
		}
		probes = append(probes, more...)
	}
	ofUnits, err := probesOfUnits(ctx, o.units)
	if err != nil {
		return nil, err
	}
	probes = append(probes, ofUnits...)
	var (
		found  []setup.Running
		faults []error
	)
	for i, p := range probes {
		stop := shown.move(func(int) string { return fmt.Sprintf("asking %s  %s", p.url, percent(i, len(probes))) })
		r, err := recognise(ctx, p)
		stop(false)
		switch {
		case err != nil:
			faults = append(faults, err)
		case r != nil:
			shown.say("  %-7s  %s  %s", r.Role, r.URL, r.About)
			found = append(found, *r)
		}
	}
	if len(found) == 0 && len(faults) == 0 {
		faults = append(faults, errors.New("no engine was found where it was looked for"))
	}
	return found, errors.Join(faults...)
}

// recognise asks who is at p. Where several ports are looked at, nobody is no
// fault.
func recognise(ctx context.Context, p probe) (*setup.Running, error) {
	e, err := askAt(ctx, p.url)
	switch {
	case err != nil && !p.named:
		return nil, nil
	case err != nil:
		return nil, fmt.Errorf("%s: %w", p.url, err)
	case !e.HandsOver:
		return nil, fmt.Errorf("%s: %s hands over to nobody; start it for prefill or decode, see docs/engines.md", p.url, e.Kind)
	case e.Role != "" && p.role != "" && e.Role != p.role:
		return nil, fmt.Errorf("%s: it was said to be for %s, but it says that it is for %s", p.url, p.role, e.Role)
	case e.Role == "" && p.role == "":
		return nil, fmt.Errorf("%s: %s does not tell its role; say it, as in --probe prefill=PORTS", p.url, e.Kind)
	}
	r := &setup.Running{Role: cmp.Or(e.Role, p.role), URL: p.url, Bootstrap: e.BootstrapPort, Dialect: e.Kind}
	if e.Kind == survey.VLLM {
		r.Dialect = "vllm-nixl"
	}
	r.About = strings.TrimSpace(fmt.Sprintf("%s %s, %s", e.Kind, e.Version, strings.Join(e.Models, ", ")))
	return r, nil
}

// probesOfUnits returns where the units run their engines that patterns name.
func probesOfUnits(ctx context.Context, patterns []string) ([]probe, error) {
	if len(patterns) == 0 {
		return nil, nil
	}
	manager, err := systemd.DialManager(ctx)
	if err != nil {
		return nil, fmt.Errorf("--probe-units: %w", err)
	}
	defer manager.Close()
	var all []probe
	for _, pattern := range patterns {
		units, err := manager.Units(ctx, pattern)
		if err != nil {
			return nil, fmt.Errorf("--probe-units: %w", err)
		}
		for _, u := range units {
			p := probe{named: true}
			for _, role := range []string{"prefill", "decode"} {
				if strings.Contains(u.Name, role) {
					p.role = role
				}
			}
			if path := u.Option("--uds"); path != "" {
				p.url = "unix:" + path
			} else if port := cmp.Or(u.Option("--port"), u.Variable("PORT")); port != "" {
				p.url = "http://127.0.0.1:" + port
			} else {
				return nil, fmt.Errorf("--probe-units: %s: neither its command nor its environment tells a port", u.Name)
			}
			all = append(all, p)
		}
	}
	return all, nil
}

// whoIsAt returns who listens at a port of this host; nothing if nobody does.
func whoIsAt(ctx context.Context, port int) string {
	address := net.JoinHostPort("127.0.0.1", strconv.Itoa(port))
	bounded, cancel := context.WithTimeout(ctx, probeTime)
	defer cancel()
	conn, err := new(net.Dialer).DialContext(bounded, "tcp", address)
	if err != nil {
		return ""
	}
	_ = conn.Close()
	e, err := askAt(ctx, "http://"+address)
	if err != nil {
		return "somebody who is no engine"
	}
	return strings.TrimSpace(fmt.Sprintf("an engine (%s %s)", e.Kind, e.Role))
}

// askAt asks the engine at a URL what it is.
func askAt(ctx context.Context, url string) (*survey.Engine, error) {
	bounded, cancel := context.WithTimeout(ctx, probeTime)
	defer cancel()
	place := survey.NewPlace(url, "", &http.Transport{})
	defer place.Client.CloseIdleConnections()
	return survey.Ask(bounded, place)
}

package main

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"pdrouter/sim"
)

// faultKinds are the ways to fail that --fail knows.
func faultKinds() []string {
	return []string{
		sim.FaultStatus, sim.FaultReset, sim.FaultClose, sim.FaultHang, sim.FaultHangAfterHead,
		sim.FaultGarbage, sim.FaultNotJSON, sim.FaultCutJSON, sim.FaultShortJSON, sim.FaultErrorFrame,
		sim.FaultSplit, sim.FaultComments, sim.FaultSlow, sim.FaultDie, sim.FaultCloseMid,
		sim.FaultEndEarly, sim.FaultStall, sim.FaultWedge, sim.FaultCutOff,
	}
}

// parseFault parses KIND[,key=value]..., for example die,tokens=5,nth=3.
func parseFault(text string) (sim.Fault, error) {
	words := strings.Split(text, ",")
	if !slices.Contains(faultKinds(), words[0]) {
		return sim.Fault{}, fmt.Errorf("%q is no way to fail; known are %s", words[0], strings.Join(faultKinds(), ", "))
	}
	f := sim.Fault{Kind: words[0]}
	for _, word := range words[1:] {
		key, value, ok := strings.Cut(word, "=")
		if !ok {
			return f, fmt.Errorf("%q is not key=value", word)
		}
		if err := setFault(&f, key, value); err != nil {
			return f, err
		}
	}
	return f, nil
}

// setFault sets what key stands for.
func setFault(f *sim.Fault, key, value string) error {
	var err error
	switch key {
	case "path":
		f.Path = value
	case "delay":
		f.Delay, err = time.ParseDuration(value)
	case "nth":
		f.Nth, err = parseCount(value)
	case "count":
		f.Count, err = parseCount(value)
	case "tokens":
		f.Tokens, err = parseCount(value)
	case "comments":
		f.Comments, err = parseCount(value)
	case "peer":
		f.Peer = value
	case "status":
		f.Status, err = parseCount(value)
	default:
		return fmt.Errorf("%q is unknown; known are comments, count, delay, nth, path, peer, status, tokens", key)
	}
	if err != nil {
		return fmt.Errorf("%s: %w", key, err)
	}
	if key == "status" && (f.Status < 200 || f.Status > 599) {
		return fmt.Errorf("status: %d is not between 200 and 599", f.Status)
	}
	return nil
}

func parseCount(text string) (int, error) {
	n, err := strconv.Atoi(text)
	if err != nil || n < 0 {
		return 0, fmt.Errorf("%q is not a number of 0 or more", text)
	}
	return n, nil
}

// A faultList is the value of --fail, given once or several times.
type faultList struct{ faults *[]sim.Fault }

// Set implements pflag.Value.
func (l *faultList) Set(text string) error {
	f, err := parseFault(text)
	if err == nil {
		*l.faults = append(*l.faults, f)
	}
	return err
}

// String implements pflag.Value: no fault is the default.
func (l *faultList) String() string { return "" }

// Type implements pflag.Value: it stands for the value in --help.
func (l *faultList) Type() string { return "KIND[,key=value]" }

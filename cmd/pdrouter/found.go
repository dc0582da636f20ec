package main

import (
	"fmt"
	"os"
	"time"

	"pdrouter/workers"
)

// found is what a discovery file says.
type found struct {
	text  []byte
	specs []workers.Spec
}

// find reads the discovery file of c, if it has one.
func find(c Config) (found, error) {
	if c.DiscoveryProvider != fromFile || c.DiscoveryFile == "" {
		return found{}, nil
	}
	text, err := os.ReadFile(c.DiscoveryFile)
	if err != nil {
		return found{}, fmt.Errorf("discovery-file: %w", err)
	}
	specs, err := parseWorkers(c.DiscoveryFile, text)
	return found{text, specs}, err
}

// place returns which file is read, and how often.
func (d *discovery) place() (path string, every time.Duration) {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.path, d.every
}

// adoptLocked takes in that the configuration is another one, and which workers
// have come from its file.
func (d *discovery) adoptLocked(c Config, what found, known []discovered) {
	d.path, d.every = "", c.DiscoveryInterval
	if c.DiscoveryProvider == fromFile {
		d.path = c.DiscoveryFile
	}
	d.taken, d.known, d.fault = what.text, known, ""
	select {
	case d.anew <- struct{}{}:
	default:
	}
}

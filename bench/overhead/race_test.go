//go:build race

package main

// racing says that the race detector is on: with it a sync.Pool loses things at
// random.
const racing = true

//go:build race

package main

// raced is true if the race detector is on, which makes all slower.
const raced = true

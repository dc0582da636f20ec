//go:build !race

package main

// raced is false: the race detector, which makes all slower, is off.
const raced = false

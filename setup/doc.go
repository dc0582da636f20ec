// Package setup plans what a host needs to run engines and a router, and writes it:
// the router's configuration, units and environment files for the engines, and a
// configuration for Prometheus.
//
// It asks nobody and starts nothing: what is wanted comes in as a [Wish], what
// there is as a [Host], and what comes out are [File]s, whose text depends on
// nothing else.
//
// # Life of a file
//
// [Layout.Files] makes its text. [Compare] says whether it is there already, and
// what is different. [Put] writes it where nothing is; where something else is, only
// if it is told to, and what was there stays beside it under another name.
//
// # Errors
//
// [Wish.Plan] returns every fault of a wish, joined.
package setup

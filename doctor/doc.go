// Package doctor finds out whether a host, its engines and a router's configuration
// fit one another, before a client does.
//
// It asks engines what they are (package survey) and compares that with what was
// configured and with one another; it looks at ports, limits, files and the unit of
// the router. It changes nothing and sends no prompt, so that it may be used while
// the router serves: the heaviest that it does is to keep one idle connection to
// each engine for as long as the router would.
//
// # Findings
//
// Each check ends in a [Finding]: all is well, a warning (it works, and will be
// regretted), a fault (it does not work), or that it cannot be known from here,
// which is never called well.
//
// # Concurrency
//
// [Examine] asks all engines at the same time and returns when all is known, or its
// context ends.
package doctor

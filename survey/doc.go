// Package survey asks engines what they are, for those who do not know yet or do
// not believe it: pdrouter init, which looks for engines, and pdrouter doctor, which
// compares what they say with what was configured and with one another.
//
// It is not how the router learns of its workers: package workers asks for what it
// needs to route, and judges it. Here everything that can be known is wanted, and
// nothing is judged. That two parts read the same pages on their own is meant: a
// page that the router misreads would be misread by its doctor as well.
//
// # Errors
//
// [Ask] returns an error if nobody answers, or nobody who is an engine of a known
// kind. What an engine does not tell is the zero value of its field.
//
// # Concurrency
//
// Everything is safe for concurrent use.
package survey

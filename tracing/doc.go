// Package tracing makes OpenTelemetry spans of the requests that have ended, and
// sends them by OTLP. It judges nothing and does not log.
//
// # Life of a trace
//
// [Tracer.Begin] reads the client's traceparent as a request's head has been
// read, and decides whether the request is traced: as the client did, else by
// chance. From then on [Trace.Leg] names the span that an engine's own spans are
// to nest under. When the request has ended its record is taken ([Tracer.Ending],
// [Tracer.Send]); the spans are made of that, by one goroutine, later. So nothing
// is kept open while a request runs, and none of its goroutines makes or sends a
// span.
//
// The ID of a span follows from that of the request's root span and from which
// span of the request it is. So the legs' headers and the spans that are made
// later agree, and nothing has to be remembered between them.
//
// # Why no OpenTelemetry SDK
//
// The spans are made from times that are past, not by code that runs inside of
// them, and OTLP is a protobuf message of a few fields. Written with protowire,
// the spans of a request cost some microseconds and no allocation. The SDK and its
// exporter take 45 us and 247 allocations for the same, which is four times all
// that the router spends on a request; they make the program 2.5 MB larger, and
// with the exporter for HTTP, which links gRPC too, 8.4 MB. Tests read what is
// sent with OpenTelemetry's own messages.
//
// # Invariants
//
//   - Nothing here ever waits for a collector but [Tracer.Run].
//   - Traces are sent whole or not at all, and each one is counted: sent, dropped
//     (more than may wait) or failed (the collector did not take it).
//   - A span says which workers served the request, but nothing by which a hand-off
//     could be joined or an engine reached: no room, no address. Spans lie beside
//     those of the client, in a store that its people may read. No text of a prompt,
//     an answer or an engine's error, and no key is in one.
//
// # Concurrency
//
// A [Tracer] is safe for concurrent use. A nil *Tracer is one that does nothing.
package tracing

package tracing

// The fields of a request to a collector, and of what is in one.
const (
	requestResourceSpans = 1

	resourceSpansResource = 1
	resourceSpansScope    = 2

	resourceAttributes = 1

	scopeSpansScope = 1
	scopeSpansSpans = 2

	scopeName    = 1
	scopeVersion = 2
)

// A batch is a request to a collector that is being written, with the spans of
// whole requests.
type batch struct {
	message
	traces uint64

	service         Service
	instance        string // tells this process from others
	resource, scope int    // where they began
}

// begin begins an empty batch in the memory of the last one. What comes next is
// spans.
func (b *batch) begin() {
	b.b, b.traces = b.b[:0], 0
	b.resource = b.open(requestResourceSpans)
	at := b.open(resourceSpansResource)
	b.textAttribute(resourceAttributes, "service.name", "pdrouter")
	b.textAttribute(resourceAttributes, "service.version", b.service.Version)
	b.textAttribute(resourceAttributes, "service.instance.id", b.instance)
	b.textAttribute(resourceAttributes, "host.name", b.service.Host)
	b.close(at)
	b.scope = b.open(resourceSpansScope)
	at = b.open(scopeSpansScope)
	b.text(scopeName, "pdrouter/tracing")
	b.text(scopeVersion, b.service.Version)
	b.close(at)
}

// end returns the request, which is whole now. It is valid until begin.
func (b *batch) end() []byte {
	b.close(b.scope)
	b.close(b.resource)
	return b.b
}

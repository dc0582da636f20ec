package main

// table lists the breakages. Each is a fault that was seen in a router of this
// kind, or one that would be easy to make here.
func table() []mutant {
	return []mutant{
		{
			"prefill's verdict is not waited for", "router/gate.go",
			"if g.commits && g.approved && len(g.held) == 0 {", "if g.commits && len(g.held) == 0 {",
			"TestVerdictHoldsTheStream",
		},
		{
			"the first error frame is taken for success", "router/stream.go",
			"		if !s.begun {\n			return false, s.engineError", "		if false {\n			return false, s.engineError",
			"TestStreamEnds",
		},
		{
			"a stream that ends without its last event is whole", "router/stream.go",
			"	if errors.Is(err, io.EOF) {\n		s.ended", "	if errors.Is(err, io.EOF) {\n		return nil\n		s.ended",
			"TestStreamEnds",
		},
		{
			"a broken stream ends with [DONE]", "router/error.go",
			`"\n\n"...)`, `"\n\ndata: [DONE]\n\n"...)`,
			"TestStreamEnds",
		},
		{
			"the failure of one leg does not end the other", "router/attempt.go",
			"	a.gate.shut()\n	a.cancel(e)\n", "	a.gate.shut()\n",
			"TestOneFate/prefill_finds",
		},
		{
			"the worker of a cancelled leg is blamed", "router/attempt.go",
			"	if a.ctx.Err() != nil {\n		return a.ctx.Err()\n	}\n	e := &Error{", "	e := &Error{",
			"TestOneFate|TestClientLeaves",
		},
		{
			"a client's 400 counts against the worker", "router/attempt.go",
			"(e.Blameless || e.Status < 500)", "(e.Blameless || e.Status < 400)",
			"TestOneFate",
		},
		{
			"engines are not told that the client left", "router/settle.go",
			"	a.tellEngines()\n	if", "	if",
			"TestClientLeaves",
		},
		{
			"a lease is not ended when prefill fails first", "router/attempt.go",
			"		a.end(a.pair.Decode, workers.Decode, context.Canceled)\n", "",
			"TestPrefillFirst",
		},
		{
			"a half JSON answer is passed on", "router/decode.go",
			"	if err != nil {\n		return \"\", a.nonsense", "	if err != nil && false {\n		return \"\", a.nonsense",
			"TestOneFate",
		},
		{
			"an engine's own words about its troubles reach the client", "router/leg.go",
			"case said.Status >= 400 && said.Status < 500:", "case said.Status >= 400 && said.Status < 600:",
			"TestOneFate",
		},
		{
			"a missing hand-off is not counted", "router/decode.go",
			"		a.h.met.HandOffMissing()\n", "",
			"TestPrefillFirst",
		},
		{
			"a lease that ends twice goes unnoticed", "workers/lease.go",
			"	if l.done.Swap(true) {", "	if l.done.Swap(true) && false {",
			"TestLeaseEndsOnce",
		},
		{
			"workers of different page size are paired", "workers/worker.go",
			`return fmt.Sprintf("%s/%d/%s", f.Dialect, f.PageSize, f.KVDtype)`, `return fmt.Sprintf("%s/%d/%s", f.Dialect, 0, f.KVDtype)`,
			"TestLeasePairsOnlyWhatFits",
		},
		{
			"a wildcard becomes the bootstrap host", "workers/bootstrap.go",
			`if host != "" && !isWildcard(host) {`, `if host != "" {`,
			"TestWildcardURL",
		},
		{
			"affinity has no bound", "policy/prefixhash.go",
			"		if float64(l.InFlight) >= bound {", "		if false && float64(l.InFlight) >= bound {",
			"TestPrefixHashBoundsTheLoad",
		},
	}
}

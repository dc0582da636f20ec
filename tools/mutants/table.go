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
			"	case transfer.Failure:\n		return false, s.h.engineError", "	case transfer.Failure:\n		return true, nil\n		return false, s.h.engineError",
			"TestStreamEnds",
		},
		{
			"a stream that ends without its last event is whole", "router/stream.go",
			"	if errors.Is(err, io.EOF) {\n		s.legs", "	if errors.Is(err, io.EOF) {\n		return nil\n		s.legs",
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
			"the worker of a cancelled leg is blamed", "router/blame.go",
			"	if a.ctx.Err() != nil {\n		return a.ctx.Err()\n	}\n	return brokenOff(", "	return brokenOff(",
			"TestOneFate|TestClientLeaves",
		},
		{
			"a client's 400 counts against the worker", "router/leg.go",
			"	case e.Status < 500, e.Status == http.StatusNotImplemented:", "	case e.Status < 400, e.Status == http.StatusNotImplemented:",
			"TestOneFate",
		},
		{
			"a client reads more of an engine's settings than is listed", "router/serverinfo.go",
			`ContainsRune("{[",`, `ContainsRune("(",`,
			"TestShownInfo",
		},
		{
			"each of many who ask has a pair generate", "router/healthgenerate.go",
			"	if p.ended.Before(arrived) {", "	if p.ended.Before(arrived) || true {",
			"TestHealthGenerateIsShared",
		},
		{
			"engines are not told that the client left", "router/settle.go",
			"	a.tellEngines()\n	decode", "	decode",
			"TestClientLeaves",
		},
		{
			"a lease is not ended when prefill fails first", "router/attempt.go",
			"	defer a.endRest()\n", "",
			"TestPrefillFirst",
		},
		{
			"a half JSON answer is passed on", "router/decode.go",
			"	if err != nil {\n		return nonsense", "	if err != nil && false {\n		return nonsense",
			"TestOneFate",
		},
		{
			"an engine's own words about its troubles reach the client", "router/leg.go",
			"said.Status < statusClientGone:", "said.Status < 600:",
			"TestOneFate",
		},
		{
			"a request is tried again though its answer has begun", "router/retry.go",
			"!e.Again || t.call.w.begun() ||", "!e.Again ||",
			"TestNoRetryAfterCommit",
		},
		{
			"the worker at fault is asked again", "router/retry.go",
			"	t.avoid(e)\n", "",
			"TestRetry",
		},
		{
			"backpressure counts as a failure", "router/leg.go",
			"Kind: workers.Busy, Wait:", "Kind: workers.Failed, Wait:",
			"TestRetry",
		},
		{
			"JSON in place of a stream passes as an answer", "router/decode.go",
			"	case a.req.Stream(): //", "	case false: //",
			"TestFaultMatrix/JSON_in_place",
		},
		{
			"a wait that was too long is begun again", "router/attempt.go",
			`Code: "first_byte_timeout", Message`, `Code: "first_byte_timeout", Again: true, Message`,
			"TestFaultMatrix/hang",
		},
		{
			"a hand-off that failed is the decode worker's fault", "router/leg.go",
			"	case said.OfHandOff(), role == workers.Decode && said.Unexplained():", "	case false:",
			"TestFaultMatrix/500",
		},
		{
			"of two that wait for one another, each is blamed", "router/blame.go",
			"	case prefilled || a.prefillFirst():", "	case true:",
			"TestFaultMatrix/hang",
		},
		{
			"a lost connection is like any other failure", "router/blame.go",
			"		e.Fault.Kind = workers.Unreachable", "		e.Fault.Kind = workers.Failed",
			"TestFaultMatrix/re",
		},
		{
			"an engine that has refused is told to abort", "router/leg.go",
			"	l.ended = true\n	return a.h.refused", "	return a.h.refused",
			"TestFaultMatrix/4",
		},
		{
			"decode is sent its leg though prefill takes no connection", "router/attempt.go",
			"		a.prefill(nil, err)\n", "		a.prefill(nil, err)\n		a.cancel(nil)\n		a.ctx, a.cancel = context.WithCancelCause(a.call.r.Context())\n		a.decode()\n",
			"TestDecodeHearsNothing",
		},
		{
			"what prefill holds is not released when decode refuses", "router/settle.go",
			"	case refused:\n		a.release()", "	case refused:",
			"TestFaultMatrix/5",
		},
		{
			"a missing hand-off is not counted", "router/handoff.go",
			"		end = metrics.HandOffMissing\n", "",
			"TestPrefillFirst|TestHandOffsAreCounted",
		},
		{
			"TTFT ends when decode sends, not when the client is sent", "router/stream.go",
			"		a.see(a.call.w.headAt)\n", "		a.see(a.firstToken)\n",
			"TestTTFTIsTheClients",
		},
		{
			"a lease that ends twice goes unnoticed", "workers/lease.go",
			"	if l.done.Swap(true) {", "	if l.done.Swap(true) && false {",
			"TestLeaseEndsOnce",
		},
		{
			"workers of different page size are paired", "workers/fit.go",
			"		if sizes {", "		if sizes && false {",
			"TestLeasePairsOnlyWhatFits",
		},
		{
			"a trial lasts as long as its stream", "router/stream.go",
			"		s.legs[workers.Decode].lease.Began()\n", "",
			"TestBegan",
		},
		{
			"a failure after the first token of a trial counts nothing", "health/breaker.go",
			"p.begun && v.kind != bad", "p.begun",
			"TestBegan",
		},
		{
			"reports that stay away are not missed", "health/silence.go",
			"		d.missed.Store(fault)\n", "		d.missed.Store(nil)\n",
			"TestMissingReports",
		},
		{
			"a bootstrap server that does not answer is well", "health/bootstrap.go",
			"	if a.kind == failing && !p.reached &&", "	if a.kind == failing || !p.reached &&",
			"TestBootstrapProbe",
		},
		{
			"a canary passes an open breaker's bar", "workers/lease.go",
			"if bar := w.barLocked(); bar.Until.After(now) {", "if bar := w.barLocked(); bar.Cause != Breaking && bar.Until.After(now) {",
			"TestLeasePair",
		},
		{
			"canaries are counted as requests of clients", "router/handler.go",
			"newHandler(registry, metrics.Discard(),", "newHandler(registry, met,",
			"TestCanary",
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
		{
			"a prompt's cache salt is left out of its seed", "transfer/fingerprint.go",
			"		keyCacheSalt, keyExtraKey,", "		keyOther, keyExtraKey,",
			"TestSeedKeepsEqualPromptsApart",
		},
		{
			"a session's hint is above the load bound", "policy/cacheaware.go",
			"			o.cost -= o.work / hintShare", "			o.cost -= o.work * hintShare",
			"TestAHintYieldsToLoad",
		},
		{
			"blocks of another length are believed to be cached", "policy/blocksize.go",
			"			b.held.clear()\n", "",
			"TestAChangeForgets",
		},
		{
			"a body that stalls is waited for", "router/body.go",
			"	_ = p.control.SetReadDeadline(time.Now().Add(p.stall)) // a recorder in tests has none\n", "",
			"TestUnfinishedBodies",
		},
		{
			"a promise of 300 MB is waited for", "router/body.go",
			"	if r.ContentLength > c.cfg.MaxBodyBytes {", "	if r.ContentLength > c.cfg.MaxBodyBytes && false {",
			"TestTooLarge",
		},
		{
			"a client's own request id reaches the engines", "router/headers.go",
			`add("X-Request-Id", attemptID)`, `add("X-Request-Id", r.Header.Get("X-Request-Id"))`,
			"TestOverlappingIDs",
		},
		{
			"the key that we check goes up to the engines", "router/headers.go",
			"	case len(c.cfg.APIKeys) > 0:", "	case false:",
			"TestKeysUp",
		},
		{
			"an engine's cookies reach the client", "router/headers.go",
			`"Openai-Version":`, `"Openai-Version", "Set-Cookie":`,
			"TestHeadersDown",
		},
		{
			"a connection that the engine closed is used again", "exchange/pool.go",
			"p.kept() && c.quiet() {", "p.kept() {",
			"TestIdleConnection",
		},
		{
			"a room is used again", "transfer/attempt.go",
			"	_, _ = rand.Read(random) //", "	_ = rand.Read //",
			"TestAttemptsShareNothing",
		},
		{
			"an escaped hand-off key is kept", "transfer/key.go",
			`	if bytes.IndexByte(raw, '\\') < 0 {`, `	if bytes.IndexByte(raw, '\\') < 0 || true {`,
			"TestGolden",
		},
		{
			"a hand-off key inside vllm_xargs is kept", "transfer/request.go",
			"if handoffKey(inner.name(r.body, &buf)) && inner.finish() {", "if handoffKey(inner.name(r.body, &buf)) && false {",
			"TestLegsAreTheClientsBodyButForOurEdits",
		},
		{
			"prefill's leg streams", "transfer/sglang.go",
			"	if r.Stream() {\n		cuts", "	if false {\n		cuts",
			"TestGolden",
		},
		{
			"the second of two models decides", "transfer/request.go",
			"	if r.known[k].end != 0 {", "	if r.known[k].end != 0 && k != keyModel {",
			"TestDuplicatesOfKeysThatWeReadAreRefused",
		},
		{
			"a hand-off with null blocks reaches decode", "transfer/handoff.go",
			"	if value[0] != '[' {\n		return false", "	if value[0] != '[' {\n		return true",
			"TestVLLMHandOffsThatKillOrHangDecodeAreRefused",
		},
		{
			"an admin's key may be left out", "admin/access.go",
			"	case len(a.Keys) > 0 && !known:", "	case len(a.Keys) > 1 && !known:",
			"TestAccess",
		},
		{
			"some other key lets in", "keys/key.go",
			"isZero(differ)", "isZero(differ &^ differ)",
			"TestFind",
		},
		{
			"a line of base64 is a key of two letters", "keys/file.go",
			"	case len(secret) >= minLength:", "	case len(secret) >= 1:",
			"TestParse",
		},
		{
			"whoever has any certificate is let in", "cmd/pdrouter/tls.go",
			"tls.RequireAndVerifyClientCert", "tls.RequireAnyClientCert",
			"TestClientCertificates",
		},
		{
			"the watchdog needs a certificate of a client", "cmd/pdrouter/tls.go",
			"		if insider != nil {", "		if insider == nil {",
			"TestClientCertificates",
		},
		{
			"a client keeps what an authority signed that is not trusted any more", "cmd/pdrouter/tls.go",
			"SessionTicketsDisabled = true", "SessionTicketsDisabled = false",
			"TestCertificatesAreRenewed",
		},
		{
			"a socket of systemd opens admin to all", "cmd/pdrouter/reach.go",
			"			if !isLocal(ln) {", "			if false && !isLocal(ln) {",
			"TestAdminIsNeverOpenBeyondThisHost",
		},
		{
			"a page that a browser shows may add workers", "admin/access.go",
			"NewCrossOriginProtection().Check(r); err != nil {", "NewCrossOriginProtection().Check(r); false && err != nil {",
			"TestAccess",
		},
		{
			"what is not known in a worker's description is passed over", "admin/object.go",
			"case !known:", `case !known && key == "x":`,
			"TestBodiesAreTakenWordByWord",
		},
		{
			"a worker counts as drained while a stream is open", "admin/info.go",
			"if s.InFlight > 0 || s.Removed {", "if s.Removed {",
			"TestDrainAndDelete",
		},
		{
			"the ID of a worker that was replaced leads nowhere", "admin/notes.go",
			"			n.heirs[older] = heir\n", "			_ = older\n",
			"TestPut",
		},
		{
			"a refused body is waited for", "admin/api.go",
			"SetReadDeadline(time.Now().Add(lastRead))", "SetReadDeadline(time.Time{})",
			"TestBodiesThatDoNotCome",
		},
		{
			"a drained worker is leased", "workers/worker.go",
			"	case w.draining, w.removed:", "	case w.removed:",
			"TestDrain",
		},
		{
			"a router believes what it knew of an engine that was restarted", "workers/identity.go",
			"now.Started.Sub(id.Started).Abs() > newProcess", "false",
			"TestIdentity|TestKeeperRemembers",
		},
		{
			"a damaged snapshot is believed", "workers/snapshotreader.go",
			"	if binary.LittleEndian.Uint32(word[:]) != sum {", "	if false {",
			"TestSnapshotWithAnyFault",
		},
		{
			"a snapshot loses the workers that have not come yet", "workers/snapshot.go",
			"	for _, m := range k.absent(there, now) {", "	for _, m := range k.absent(there, now)[:0] {",
			"TestKeeperWaitsForWorkers",
		},
		{
			"what is used while it is copied is not in the copy", "policy/held.go",
			"	if place == t.copied {\n		t.copied = n.older\n	}\n", "",
			"TestHeldIsCopiedBesideAnything",
		},
		{
			"a slot that comes free for a client who leaves is lost", "workers/waiting.go",
			"			r.takeBack(w.pair)\n", "",
			"TestWhoLeavesGivesBackWhatIsGranted",
		},
		{
			"the lowest class goes first", "workers/line.go",
			"cmp.Or(cmp.Compare(b.class, a.class), cmp.Compare(a.tenant", "cmp.Or(cmp.Compare(a.class, b.class), cmp.Compare(a.tenant",
			"TestLineIsInOrder",
		},
		{
			"that a request is refused is an engine's fault", "router/error.go",
			`Code: "admission_queue_full", Err: shed,`, `Code: "admission_queue_full", Err: shed, Fault: &workers.Fault{},`,
			"TestAShedIsNobodysFault",
		},
		{
			"the engines of a pair are told each other's spans", "tracing/trace.go",
			"	if leg == Prefill {\n", "	if leg != Prefill {\n",
			"TestSpansOfARequestThatWasTriedAgain",
		},
		{
			"a trace that is dropped is not counted", "tracing/tracer.go",
			"	default:\n		t.counts.dropped.Add(1)\n", "	default:\n",
			"TestNothingWaitsForACollector|TestMoreThanCanBeSent",
		},
		{
			"restart-worker restarts an engine under its requests", "cmd/pdrouter/restarter.go",
			"	if _, err := o.await(ctx, r.client, w, r.shown); err != nil {", "	if err := error(nil); err != nil {",
			"TestRollingRestart",
		},
		{
			"restart-worker goes on after an engine that does not come back", "cmd/pdrouter/restarter.go",
			"			return fmt.Errorf(\"%s: %w%s\", step, err, r.standing(plan, i))", "			continue",
			"TestRestartThatDoesNotComeBack",
		},
		{
			"restart-worker begins though a unit has no worker", "cmd/pdrouter/unitworker.go",
			"	return plan, errors.Join(faults...)", "	return plan, errors.Join()",
			"TestRestartThatIsRefused",
		},
		{
			"init overwrites what is there", "cmd/pdrouter/init.go",
			"	case state == setup.Differs && !o.change:", "	case false:",
			"TestScripts/init",
		},
		{
			"doctor takes a decode engine for prefill", "doctor/engines.go",
			"	case e.Role != \"\" && e.Role != w.Role:", "	case false:",
			"TestContradictions",
		},
		{
			"doctor does not see that a bootstrap server is elsewhere", "doctor/handoff.go",
			"	if survey.IsLoopback(host) && len(remote) > 0 {", "	if false {",
			"TestHandOffsToOtherHosts",
		},
	}
}

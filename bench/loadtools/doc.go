// Loadtools is make load-tools: the load tools that people use, unchanged,
// against a router with simulated engines, and whether what they report is what
// the engines were told to take.
//
// It is no benchmark of the router. It shows that aiperf, guidellm and
// inference-perf work with it, and how each is called: the commands are those of
// docs/clients.md.
//
// # What is judged
//
// No request fails, and the medians of TTFT and ITL are within a quarter of what
// the engines were told: each prompt token takes prefillPerToken, as many as the
// engines have counted, and each token of the answer decodePerToken, that of
// prefill among them where it goes first.
package main

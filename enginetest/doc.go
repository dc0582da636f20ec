// Package enginetest is the test of the router before real engines: a vLLM pair
// that hands KV over by NIXL and an SGLang pair that does by Mooncake, on the
// CPU, with a small model that talks sense. It has tests only.
//
// The same suite runs before sim's engines, in every go test. What passes there
// and fails here is where sim is wrong; it is mended in sim.
//
// # How it is run
//
// `make engine-test` installs the engines (setup/) and runs all that needs no
// more than one restart; `make engine-test-full` also what kills engines. By
// itself:
//
//	go test ./enginetest -engines DIR -only vllm
//
// What the steps take for proof, and what they changed in the router, is in
// docs/engine-tests.md.
package enginetest

# Everything a person or CI needs; each target is one thing. Run `make help`.
SHELL := bash
GO    ?= go
TOOL  := $(GO) tool -modfile=tools/go.mod
FUZZ  ?= 20000x
CHAOS ?= 10m
ENGINES ?= .cache/engines

.PHONY: help build demo test race lint fuzz bench replay rivals chaos chaos-brief load-tools pgo mutants mutants-fit dashboard tools-test vulncheck check e2e-setup package release host-test engine-test engine-test-full clean

help: ## this list
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):[^#]*## /  \1\t/' | expand -t 16

build: ## bin/pdrouter
	CGO_ENABLED=0 $(GO) build -trimpath -o bin/pdrouter ./cmd/pdrouter

demo: ## a simulated fleet and a router, in this terminal
	@$(GO) run ./cmd/pdrouter demo $(ARGS)

test: ## the tests, quickly
	$(GO) test -short ./...

race: e2e-setup ## the tests with the race detector, uncached
	$(GO) test -race -count=1 -timeout 30m ./...

lint: ## vet, golangci-lint, module hygiene
	$(GO) vet ./...
	$(TOOL) golangci-lint run ./...
	$(GO) mod tidy -diff

fuzz: ## each fuzz target, FUZZ inputs or time each (default 20000x)
	@bash tools/fuzz.sh $(FUZZ)

bench: build ## CPU, memory and latency of the real binary beside two plain proxies
	$(GO) run ./bench/overhead $(ARGS)

replay: ## policies on a virtual clock, beside what was to be reached; of Mooncake's traces in TRACES=DIR, else of five minutes
	$(GO) run ./bench/table $(if $(TRACES),-traces $(TRACES)) $(ARGS)

chaos: ## the router before engines that are killed, stopped and restarted, for CHAOS (default 10m); ARGS='-seed N' repeats a run
	$(GO) run ./bench/chaos -duration $(CHAOS) $(ARGS)

rivals: build ## smg, sglang-router, vllm-router and ours on the same work: docs/benchmarks.md; ARGS='-only overhead,faults,routing -rounds 3'
	$(GO) run ./bench/rivals $(ARGS)

chaos-brief: ## the same for a minute, with the race detector in the router
	$(GO) run ./bench/chaos -duration 60s -race $(ARGS)

load-tools: build ## aiperf, guidellm and inference-perf against router and sim; installs them (8 GB) on the first run
	@bash tools/loadtools.sh
	$(GO) run ./bench/loadtools $(ARGS)

pgo: ## bin/new.pgo, a profile for go build -pgo; not used, see docs/performance.md
	@mkdir -p bin
	$(GO) test -run '^$$' -bench Overhead -benchtime 3s -cpuprofile $(CURDIR)/bin/new.pgo -o bin/overhead.test ./cmd/pdrouter

mutants: ## break the product in many ways; a named test must notice each
	@cd tools && $(GO) build -o ../bin/mutants ./mutants && cd .. && bin/mutants $(ARGS)

vulncheck: ## known vulnerabilities that our code reaches; not in check, because it needs a database that is not everywhere
	@bash tools/vulncheck.sh

e2e-setup: ## the parts of the tests that are not Go (Python, Node, Prometheus), in .venv and .cache
	@bash tools/setup.sh

mutants-fit: ## that each line which mutants would break still stands
	@cd tools && $(GO) vet ./... && $(GO) build -o ../bin/mutants ./mutants && cd .. && bin/mutants -fit

dashboard: ## deploy/grafana/pdrouter.json, of what tools/dashboard says
	cd tools && $(GO) test ./dashboard -update

tools-test: ## that the dashboard is what its program makes
	cd tools && $(GO) test ./...

package: ## dist/*.deb and *.rpm for this architecture
	@bash tools/package.sh dist

release: ## the same for amd64 and arm64, with programs, SBOMs and checksums
	@bash tools/release.sh dist

host-test: e2e-setup ## the package on a real systemd, booted in namespaces: start, restart, crash, upgrade, purge; as root
	@bash tools/hosttest.sh

engine-test: ## the router before real vLLM and SGLang pairs, installed into ENGINES (default .cache/engines); 3 GB of disk each
	@bash tools/enginetest.sh $(ENGINES) $(ARGS)

engine-test-full: ## the same, and what kills engines
	@bash tools/enginetest.sh $(ENGINES) -full $(ARGS)

check: build lint mutants-fit tools-test race chaos-brief host-test fuzz ## what CI runs

clean:
	rm -rf bin dist .venv .cache

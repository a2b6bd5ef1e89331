# People and CI use the same targets: .ci/run calls `make test`.
# Nothing here sets GOFLAGS, GOPROXY or their like: the environment's go.

GO ?= go

# What the fast targets look at, so that one package can be checked alone:
#   make lint PKGS=./internal/canon/...
PKGS ?= ./...

# Appended to `make run`, as in: make run ARGS='--listen 127.0.0.1:9090'
ARGS ?=

VERSION := $(shell test -e .git && git describe --tags --always --dirty 2>/dev/null || echo dev)
COMMIT  := $(shell test -e .git && git rev-parse --short HEAD 2>/dev/null || echo none)

MODULE  := github.com/ferry-broker/ferry

# The analysers are built here, never on the PATH of whoever runs make.
TOOLS := $(CURDIR)/.cache/tools

# The race detector needs a C compiler; without one the tests run all the same, and say so.
RACE := $(shell command -v $$($(GO) env CC) >/dev/null 2>&1 && echo -race)

# How often `make fuzz` calls each fuzz target.
FUZZ ?= 2000x

.DEFAULT_GOAL := help
.PHONY: help run build test check bench shape model model-briefly docs fuzz fmt vet tidy lint asl asl-validator sizes tools docs-fresh stand-in sam-local aws-local fuzz-briefly clients e2e e2e-aws

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z0-9-]+:.*## / { printf "  make %-11s %s\n", $$1, $$2 }' Makefile

run: build ## start the broker with a simulated Cloud Foundry (more flags: ARGS='...')
	@exec bin/ferry serve --simulate-cf $(ARGS)

build: ## build bin/ferry
	@$(GO) build -ldflags '-X main.version=$(VERSION) -X main.commit=$(COMMIT)' -o bin/ferry ./cmd/ferry

test: check ## what CI runs; the same as check

# What is quick comes first: it says soonest what is wrong. That the generated pages are fresh is said by the tests that
# write them. The end-to-end part mostly waits, so that most of the rest is done beside it, with what it leaves of the
# machine. The tests of whole processes come last and alone: their requests have little time.
FIRST  := fmt stand-in vet tidy asl
BESIDE := lint fuzz-briefly model-briefly clients in-flight test-packages
ALONE  := ./internal/acceptance ./internal/process

check: ## every rule, then every test under the race detector
	@test -n "$(RACE)" || echo "no C compiler: the tests run without the race detector"
	@$(MAKE) --no-print-directory $(FIRST:%=timed-%)
	@$(MAKE) --no-print-directory --jobs=2 --output-sync=target timed-e2e timed-beside
	@FERRY_E2E=done $(GO) test $(RACE) -count=1 -timeout 20m $(ALONE)

.PHONY: in-flight test-packages
# One after the other: a shell of its own loop, since make would share its two jobs with them.
timed-beside:
	@for stage in $(BESIDE); do nice $(MAKE) --no-print-directory timed-$$stage || exit 1; done

timed-%:
	@start=$$(date +%s); $(MAKE) --no-print-directory --silent $* && echo "$*: passed in $$(($$(date +%s) - start)) s"

in-flight: # what is too much for the race detector: ten thousand operations, an hour of a thousand, the cost page
	@$(GO) test -count=1 -run '^(TestTenThousandInFlight|TestALimiterIsNotMet|TestCostPage)$$' ./internal/lambda

test-packages: # all that go test runs, but what needs the machine for itself
	@FERRY_E2E=done $(GO) test $(RACE) -count=1 -timeout 20m $$($(GO) list ./... | grep -vxF $(ALONE:./%=-e $(MODULE)/%))

# What `sam build` calls, with ARTIFACTS_DIR. It does not tell the architecture, so that this default
# has to be the template's; for x86_64: GOARCH=amd64 sam build. FERRY_BUILD_TAGS=local is for sam-local alone.
FUNCTIONS := build-ApiFunction build-PollerFunction build-JanitorFunction
.PHONY: $(FUNCTIONS)
build-ApiFunction: FUNCTION := api
build-PollerFunction: FUNCTION := poller
build-JanitorFunction: FUNCTION := janitor
$(FUNCTIONS):
	@CGO_ENABLED=0 GOOS=linux GOARCH=$${GOARCH:-arm64} $(GO) build -trimpath -tags lambda.norpc$(FERRY_BUILD_TAGS:%=,%) \
		-ldflags '-s -w -X $(MODULE)/internal/lambda.build=$(VERSION)' -o '$(ARTIFACTS_DIR)/bootstrap' ./functions/$(FUNCTION)

bench: ## measure, also against a broker in memory that is made with brokerapi
	@$(GO) test -run '^$$' -bench . -benchmem -timeout 20m ./internal/bench
	@echo "Calls to Cloud Foundry, once login, org, space and plan are known:"
	@$(GO) test -count=1 -run '^TestCallBudget$$' -v ./internal/acceptance | sed -n 's/^ *budget_test.go:[0-9]*: /  /p'

shape: ## measure how the code is cut, and how much of it one request runs through
	@mkdir -p .cache/shape
	@GOCOVERDIR=.cache/shape $(GO) run -cover -covermode=atomic -coverpkg=./... ./internal/shape

# Which scenarios, all when empty: make model SCENARIO=life,pages. All take an hour and 8 GB of memory.
SCENARIO ?=

model: ## check docs/protocol.md by exhaustive search, and what breaks without each safeguard
	@$(GO) run ./internal/model -mutations
	@$(GO) run ./internal/model -scenario '$(SCENARIO)'

# How often `make sizes` starts the function, above 1 to weigh its modules, too; COLD=-cold, as root, empties the page cache before each start.
RUNS ?= 20

sizes: stand-in ## weigh the API function by dependency, and time its first answer
	@$(GO) test -count=1 -run '^(TestSizes|TestFirstAnswer)$$' -v ./internal/stack -runs=$(RUNS) $(COLD) | \
		sed -n 's/^ *\(binaries\|emulator\)_test.go:[0-9]*: /  /p; /^ *--- FAIL/p'

# The generated pages; each is written by a test that is called with -update.
PAGES := docs/lifecycle.md docs/osb-conformance.md docs/aws-cost.md

docs: ## write the generated pages anew (docs/lifecycle.md, docs/osb-conformance.md; with the stand-in for AWS, docs/aws-cost.md)
	@out=$$($(GO) test -count=1 ./internal/lifecycle -run TestTable -update 2>&1) || { echo "$$out"; exit 1; }
	@out=$$($(GO) test -count=1 ./internal/conformance -run '^TestConformance$$' -update 2>&1) || { echo "$$out"; exit 1; }
	@out=$$($(GO) test -count=1 ./internal/lambda -run '^TestCostPage$$' -update 2>&1) || { echo "$$out"; exit 1; }

# Each as its name and its package.
FUZZERS = grep -r --include='*_test.go' '^func Fuzz' cmd internal | \
	sed 's|^\(.*\)/[^/]*_test.go:func \(Fuzz[A-Za-z0-9_]*\)(.*|\2 ./\1|' | sort

fuzz: ## call every fuzz target a fixed number of times (FUZZ=2000x)
	@$(FUZZERS) | while read -r target package; do \
		echo "$$target ($$package)"; \
		$(GO) test -run '^$$' -fuzz "^$$target\$$" -fuzztime=$(FUZZ) "$$package" || exit 1; \
	done

PYTHON ?= python3

stand-in: .cache/venv/pinned ## install SAM and the stand-in for AWS that tests run against

# Afterwards no network is needed. The stamp is written last, so that half an
# environment is made anew. The list names everything: pip has nothing to resolve.
.cache/venv/pinned: tools/standin/requirements.txt
	@rm -rf .cache/venv && $(PYTHON) -m venv .cache/venv
	@.cache/venv/bin/pip install --quiet --disable-pip-version-check --no-deps --require-hashes --only-binary :all: -r $<
	@cp $< $@

# What this machine lacks is said before 365 MB are installed.
sam-local: ## the API function in a Lambda container on this machine, no cloud (one event: EVENT=events/catalog.json)
	@tools/samlocal/run.sh --check '$(EVENT)'
	@$(MAKE) --no-print-directory stand-in
	@exec tools/samlocal/run.sh '$(EVENT)'

aws-local: stand-in build ## the whole stack on this machine, no account: stand-in for AWS, simulated Cloud Foundry; Ctrl-C ends it
	@exec .cache/venv/bin/python -B tools/awslocal/run.py

# With FERRY_E2E_BROKER_URL (output BrokerUrl of the stack), FERRY_E2E_USERNAME and FERRY_E2E_PASSWORD
# (of a client in its configuration), and FERRY_E2E_PLAN (OFFERING/PLAN that can be bound; instances of it
# are made and deleted; FERRY_E2E_PARAMETERS, a JSON object, if it needs any): the catalog, a whole life and
# the bug report against that stack. Without any of them: against a stack on the stand-in, which needs nothing.
E2E_STACK = $${FERRY_E2E_BROKER_URL-}$${FERRY_E2E_USERNAME-}$${FERRY_E2E_PASSWORD-}$${FERRY_E2E_PLAN-}

e2e-aws: ## the end-to-end part of test; on a stack of yours with FERRY_E2E_BROKER_URL, _USERNAME, _PASSWORD, _PLAN
	@if test -n "$(E2E_STACK)"; then \
		FERRY_E2E=aws $(GO) test -count=1 -v -timeout 3h -run '^TestOnAWS$$' ./internal/deployed; \
	else \
		echo "No stack is named by FERRY_E2E_BROKER_URL, FERRY_E2E_USERNAME, FERRY_E2E_PASSWORD and FERRY_E2E_PLAN: one on the stand-in is tested."; \
		$(MAKE) --no-print-directory e2e; \
	fi

# The stages of `make check`. Each can be called alone.

fmt: # gofmt would change nothing
	@unformatted=$$(gofmt -l $(wildcard cmd functions internal clienttest)) || exit 1; \
	test -z "$$unformatted" || { echo "gofmt would change:"; echo "$$unformatted"; exit 1; }

vet: # go vet
	@$(GO) vet $(PKGS)
	@$(GO) vet -tags local ./functions/api
	@for module in clienttest internal/bench/peer; do $(GO) -C $$module vet ./... || exit 1; done

tidy: # go.mod and go.sum say what the code needs, no more and no less
	@$(GO) mod tidy -diff
	@$(GO) -C tools mod tidy -diff
	@for module in clienttest internal/bench/peer; do $(GO) -C $$module mod tidy -diff || exit 1; done

LINTERS := lint-staticcheck lint-errcheck lint-exhaustive lint-deadcode
.PHONY: $(LINTERS)

lint: tools # exclusions stand in staticcheck.conf and in tools/, with their reasons
	@MAKEFLAGS= $(MAKE) --no-print-directory -j 2 $(LINTERS)

lint-staticcheck:
	@$(TOOLS)/staticcheck $(PKGS)
	@$(TOOLS)/staticcheck -tags local ./functions/api
	@for module in clienttest internal/bench/peer; do (cd $$module && $(TOOLS)/staticcheck ./...) || exit 1; done

lint-errcheck:
	@$(TOOLS)/errcheck -exclude tools/errcheck-excludes.txt $(PKGS)

lint-exhaustive: # -d: a default says that the rest was thought of
	@$(TOOLS)/exhaustive -d $(PKGS)

# Of the whole program only. Functions that one of the two builds calls are not dead: what the tag local leaves out, or
# alone brings in.
lint-deadcode:
	@test '$(PKGS)' = ./... || exit 0; \
	$(TOOLS)/deadcode ./cmd/... ./functions/... >.cache/deadcode.txt && \
	$(TOOLS)/deadcode -tags local ./cmd/... ./functions/... >.cache/deadcode-local.txt || exit 1; \
	! grep -Fxf .cache/deadcode.txt .cache/deadcode-local.txt || \
		{ echo "no program calls these: tests have no need of a function that the product has not"; exit 1; }

tools: # built by the go of today, or they refuse the code of today; nothing to do costs nothing
	@cd tools && GOBIN='$(TOOLS)' $(GO) install tool

# No time to find much, but every target runs, on the whole corpus that is in the repository. What earlier runs found
# on this machine is left out: it grows with each of them, and the time with it.
fuzz-briefly:
	@rm -rf .cache/fuzz && mkdir -p .cache/fuzz
	@$(FUZZERS) | xargs -P 2 -n 2 sh -c '$(GO) test -run "^$$" -fuzz "^$$0\$$" -fuzztime=300x "$$1" \
		-args -test.fuzzcachedir="$(CURDIR)/.cache/fuzz/found" >".cache/fuzz/$$0.log" 2>&1' || { cat .cache/fuzz/*.log; exit 1; }

# Without the race detector: a search has one goroutine, and under the detector `go test ./...` sees a sample only.
model-briefly:
	@$(GO) test -count=1 -timeout 20m ./internal/model

clients: # the Kubernetes client library drives a whole life; a module of its own, so that its dependencies stay out
	@$(GO) -C clienttest test $(RACE) -count=1 -timeout 10m ./...

e2e: stand-in # build and deploy to the stand-in for AWS, play platforms and faults, delete
	@$(GO) test $(RACE) -count=1 -v -timeout 15m -skip '^TestOnAWS$$' ./internal/deployed >.cache/e2e.log 2>&1 || { cat .cache/e2e.log; exit 1; }
	@sed -n 's/^ *[a-z_]*_test.go:[0-9]*: \(stage .*\)/  \1/p' .cache/e2e.log
	@echo "  $$(grep -a -c -e '--- PASS' .cache/e2e.log) tests and cases passed, $$(grep -a -c -e '--- SKIP' .cache/e2e.log) skipped"

asl: # the state machine by its linter; the only stage that wants Node, and goes without
	@if command -v npm >/dev/null; then $(MAKE) --no-print-directory asl-validator; else \
		echo "asl-validator, the linter of the state machine, is skipped: npm is not installed"; fi

# The linter does not know ${...}: all that SAM puts in are ARNs of functions.
asl-validator: .cache/asl/pinned
	@sed 's/$${[A-Za-z]*}/arn:aws:lambda:eu-central-1:123456789012:function:poller/g' \
		statemachine/operation.asl.json >.cache/asl/operation.json
	@.cache/asl/node_modules/.bin/asl-validator --json-path .cache/asl/operation.json >.cache/asl/log 2>&1 || \
		{ cat .cache/asl/log; exit 1; }

# The stamp is written last, so that half a linter is installed anew.
.cache/asl/pinned: tools/asl/package.json tools/asl/package-lock.json
	@rm -rf .cache/asl && mkdir -p .cache/asl && cp $^ .cache/asl
	@npm ci --prefix .cache/asl --ignore-scripts --no-audit --no-fund >.cache/asl/log 2>&1 || { cat .cache/asl/log; exit 1; }
	@touch $@

docs-fresh: # writing the generated pages anew changes nothing; compared without git, so that it also says so before a commit
	@old=$$(mktemp -d) && trap 'rm -rf "$$old"' EXIT && cp $(PAGES) "$$old" && \
	$(MAKE) --no-print-directory docs && \
	for page in $(PAGES); do \
		diff -u "$$old/$$(basename "$$page")" "$$page" || { echo "$$page was stale and is written anew: commit it"; exit 1; }; \
	done

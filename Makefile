# On a fresh machine with Go, `make demo` is all it takes; on Debian, `make test` too.

SHELL       := bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
# Targets run in the order written, also with -j: cheap failures come first, and
# tests that measure real time have the machine for themselves.
.NOTPARALLEL:

# Built from source by the go command, so there is nothing to install.
GOLANGCI := go run github.com/golangci/golangci-lint/v2/cmd/golangci-lint@v2.15.0

# The workspace, go.work, hides a missing requirement, and raises for all modules what one requires. So it is on only for those beside the
# library, which take the library from this clone by it.
export GOWORK := off
sql fencing shards monitoring runlog build-sql: export GOWORK := $(CURDIR)/go.work
BESIDE := $(shell sed -n 's,^\t\./,,p' go.work)

# What needs no server: all but integration/.
UNIT := $$(go list ./... | grep -v '/integration')

# Tests that only read the source code; the race detector would make them ten times slower.
HOUSE := ./singleworker/internal/house

# Packages without goroutines, also in what they import: the race detector has nothing to see in them (internal/house/pure_test.go).
PURE := ./cmd/swctl/internal/output ./sample/record ./singleworker/admin/plain ./singleworker/internal/agenda ./singleworker/internal/lease \
	./singleworker/internal/ledger ./singleworker/internal/offset ./singleworker/internal/ticks ./singleworker/internal/txnlog \
	./singleworker/invalid ./singleworker/swtest/audit ./singleworker/swtest/txns ./singleworker/zkdev/internal/tree

# Whose tests draw scenarios from seeds: a tenth of them by default, all with -sim.all (internal/simkit).
RANDOM_TESTS := $(patsubst %,./singleworker/internal/%,election lease runner sim swtest ticks zkconn)

# Those of them that have goroutines: with the race detector, which makes a simulation ten times slower, they draw a fiftieth.
RANDOM_RACES := $(filter-out %/lease %/ticks,$(RANDOM_TESTS))

# Handlers in virtual time, one at a time, whose weeks under faults are long: the engine below them has tests of its own.
LONG := ./sample/payments

# Compilers and tests without a server collect their garbage less often: a sixth of their time went there. In
# integration, chaos and benchmarks, which measure real time or memory, the default stays.
quick unit race: export GOGC := 400
quick unit race: export GOMEMLIMIT := 2GiB

FUZZTIME ?= 30s

.PHONY: help
help: ## print this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  %-12s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

.PHONY: setup
setup: ## install ZooKeeper, if it is missing and this is root
	integration/zookeeper.sh install

.PHONY: demo
demo: ## three instances, nine jobs, a kill -9, and a check that no tick was lost; ZK=real: with Java
	sample/cluster.sh

.PHONY: test
test: setup format golangci race-beside-chaos installed integration ## the main module: lint, unit tests with the race detector, integration, faults

# Chaos and a small bench wait most of the time, and are judged by what happens, not by how soon; the others are mostly in virtual
# time. So they share the machine. What chaos and the bench print comes last.
.PHONY: race-beside-chaos
race-beside-chaos:
	@set -m; log=$$(mktemp); trap 'rm -f "$$log"' EXIT; \
	$(MAKE) --no-print-directory chaos-short chaos-serve bench-short >"$$log" 2>&1 & chaos=$$!; \
	$(MAKE) --no-print-directory race || { kill -- "-$$chaos"; wait "$$chaos" || :; exit 1; }; \
	code=0; wait "$$chaos" || code=$$?; cat "$$log"; exit "$$code"

.PHONY: check
check: format golangci race installed ## what test does without a server; for use before each commit

.PHONY: modules
modules: fencing shards deploy monitoring runlog ## the modules beside the library, samples with their own among them: lint and tests

# The go command vets these packages while it tests them. Those that start processes or compute for long are left to make check, and so
# are the small worlds, which are most of the work of lease and ticks.
QUICK := $$(go list ./cmd/swctl/internal/{cmdline,fields,imports,output,render} ./singleworker/... | \
	grep -v -E '/(admin|guard|swtest|audit|txns|storetest|sim|listing|deputy)$$')
.PHONY: quick
quick: format ## the engine and what is public; not: race detector, lint, processes, samples, admin, deputy, swtest, sim, small worlds, 9/10 of random scenarios
	go test -skip '^TestExplore(Breaches|Order|Pausing)?$$' $(QUICK)

.PHONY: lint
lint: format golangci ## gofmt, and golangci-lint, which runs go vet

.PHONY: format
format:
	@unformatted=$$(gofmt -l .); \
	[[ -z $$unformatted ]] || { printf 'not formatted; run gofmt -w on:\n%s\n' "$$unformatted"; exit 1; }

# Its govet is what go vet does, over the tests, too.
.PHONY: golangci
golangci:
	$(GOLANGCI) run

.PHONY: unit
unit: ## the tests that need no server, with all random scenarios
	go test $(UNIT)
	go test $(RANDOM_TESTS) -sim.all

.PHONY: race
race: ## the tests that need no server with the race detector, and a quarter of all random scenarios without it
	go test -vet=off $(HOUSE) $(LONG) $(filter-out $(RANDOM_TESTS),$(PURE))
	go test -vet=off -race -timeout 30m $$(go list ./... | grep -v '/integration' | grep -v -x -F "$$(go list $(HOUSE) $(LONG) $(PURE) $(RANDOM_RACES))")
	go test -vet=off -race -timeout 30m $(RANDOM_RACES) -sim.share=0.02
	go test -vet=off -timeout 30m $(RANDOM_TESTS) -sim.all -sim.share=0.25

# Not part of test: it needs the network, and says something about the day. It fails if the database cannot be reached.
.PHONY: vulncheck
vulncheck: ## known vulnerabilities in what each module links, by govulncheck; needs https://vuln.go.dev
	failed=; for module in $$(git ls-files | grep 'go.mod$$' | xargs dirname); do \
	work=off; [[ " $(BESIDE) " != *" $$module "* ]] || work=$(CURDIR)/go.work; \
	(echo "$$module" && cd "$$module" && GOWORK=$$work go run golang.org/x/vuln/cmd/govulncheck@v1.9.0 ./...) || failed+=" $$module"; done; \
	[[ -z $$failed ]] || { echo "not known to be without vulnerabilities:$$failed"; exit 1; }

# The go command tidies modules without the workspace. So those beside the library replace it meanwhile.
.PHONY: tidy
tidy: ## go.mod and go.sum of each module, after a change of what it imports
	for module in $$(git ls-files | grep 'go.mod$$' | xargs dirname); do (echo "$$module"; cd "$$module"; \
	if [[ " $(BESIDE) " == *" $$module "* ]]; then \
		trap 'go mod edit -dropreplace github.com/swjobs/singleworker' EXIT; \
		go mod edit -replace "github.com/swjobs/singleworker=$(CURDIR)"; fi; \
	go mod tidy); done

# A module of its own, so that the library does not depend on SQLite; ./... leaves it out.
.PHONY: sql
sql:
	cd sample/sql && $(GOLANGCI) run

# -count=1: what they show are processes and signals, which are no inputs of the tests.
# One at a time, because they measure real time.
.PHONY: fencing shards
fencing: ## the example of fencing: a SQL table refuses a paused owner's late write
shards: ## the example of shards: 600 rows on three processes, of which one is killed in the middle
fencing shards: sql
	cd sample/sql && go test -count=1 ./$@

# A module of its own, so that the library does not depend on Kubernetes. systemd-analyze checks the unit.
.PHONY: deploy
deploy: ## the Dockerfile, manifests and unit of sample/deploy, and the commands in them
	command -v systemd-analyze >/dev/null || apt-get install -y --no-install-recommends systemd
	cd sample/deploy && $(GOLANGCI) run && go test -count=1 ./...

# Modules beside the library, so that it links no library for metrics and traces.
.PHONY: monitoring
monitoring: ## the modules for metrics and traces, the alert rules with promtool, and the dashboard
	sample/monitoring/promtool.sh
	for module in prom otel; do (cd singleworker/$$module && $(GOLANGCI) run && go test -race ./...); done

# A module beside the library, so that it links no drivers.
.PHONY: runlog
runlog: ## swctl-sql: the log of all runs, and package once, in SQLite, PostgreSQL and MariaDB, under kill -9
	integration/zookeeper.sh install
	integration/packages.sh postgresql mariadb-server
	cd cmd/swctl/swctl-sql && $(GOLANGCI) run && go test -count=1 ./...

# -count=1: the files of the clone are no inputs of the test. Only what the cache of modules lacks comes from the network.
.PHONY: installed
installed: ## go install of each command from a module proxy that has this clone, and a program with the library from there
	go test -count=1 ./integration/install

# Tests that also run on the newer ZooKeeper: an instance and its server die, and the audit of the server's files; directories
# and exports of swctl serve, there and back; bulk requests; reading without a quorum.
NEWER := ^Test(Audit|ServeAndZooKeeper|ServeAndEnsemble|ReadManyOnARealServer|StaleWithoutQuorum)$$

# -count=1: a cached success says nothing about a server that is not an input of the
# test. -p 1: one package at a time, because they measure real time.
.PHONY: integration
integration: ## the tests on real ZooKeeper servers, which they start themselves
	integration/zookeeper.sh install kazoo
	integration/zookeeper.sh install curator
	integration/zookeeper.sh install 3.9
	integration/packages.sh bash zsh fish mandoc man-db
	ZOOKEEPER_HOME=$$(integration/zookeeper.sh home 3.9) go test -count=1 -timeout 15m -run '$(NEWER)' ./integration
	go test -count=1 -p 1 -timeout 15m $$(go list ./integration/... | grep -v -E '/integration/(bench|browser|chaos|install)$$')

# ZooKeeper 3.4 has neither TLS nor requests for many nodes, does not write all that a snapshot of swctl serve needs, and
# ends sessions although it is read-only.
UNKNOWN_TO_OLDER := ^Test(CertificateIsNoPassword|ReadManyOnARealServer|ServeAndZooKeeper|StaleWithoutQuorum)$$

# Not part of test, for it says little that 3.8 does not: nightly in continuous integration.
.PHONY: servers
servers: MINUTES ?= 20
servers: ## the demonstration and integration tests on ZooKeeper 3.4; the demonstration, and MINUTES (20) of chaos, on 3.9
	integration/zookeeper.sh install 3.4
	integration/zookeeper.sh install 3.9
	export ZOOKEEPER_HOME=$$(integration/zookeeper.sh home 3.4); ZK=real sample/cluster.sh; \
	go test -count=1 -timeout 30m -skip '$(UNKNOWN_TO_OLDER)' ./integration
	export ZOOKEEPER_HOME=$$(integration/zookeeper.sh home 3.9); ZK=real sample/cluster.sh; \
	$(MAKE) --no-print-directory chaos MINUTES=$(MINUTES)

# Not part of test: it needs Chromium, and modules from npm, which install.sh gets. SHOTS is a directory for pictures.
SHOTS ?=
.PHONY: browser
browser: ## the pages of swctl ui in Chromium: weight, first paint, zoom, accessibility, live updates, actions; SHOTS=DIR for pictures
	integration/browser/install.sh
	go test -count=1 -v -timeout 15m ./integration/browser -browser.shots "$(SHOTS)" | sed -u '/^=== /d; s/^    *[a-z_]*_test.go:[0-9]*: //'

# Prints the seed and its faults, a table of figures, where the page of the run is, and PASS or FAIL.
SEED ?= 0
.PHONY: chaos chaos-short chaos-serve
chaos: MINUTES ?= 10
chaos: ## MINUTES (10) of faults to processes and to an ensemble of three servers, or ZK=serve; SEED repeats those of another run
chaos-short: MINUTES := 4
chaos-serve: MINUTES := 1
chaos-serve: ZK := serve
chaos chaos-short chaos-serve: setup
	@go test -count=1 -timeout=0 -v ./integration/chaos -chaos.serve=$(if $(filter serve,$(ZK)),true,false) -chaos.minutes=$(MINUTES) -chaos.seed=$(SEED) \
		| sed -u '/^=== /d; /^ *server.go:/,/^--- /{/^--- /!d}; s/^    [a-z]*_test.go:[0-9]*: //'

# More than the tests compare, and a new seed each time.
N ?= 100000

.PHONY: diff
diff: setup ## compare zkdev with a real ZooKeeper over N=100000 operations
	go test -count=1 -timeout 60m -v -run TestDifferential ./integration/diff -diff.n $(N) -diff.seed $$RANDOM

# Fails (the recipe with 1) if there is a violation; each is printed with what came before it.
SEEDS ?= 500
SEED_BASE ?= 1
BREACH ?=
KIND ?=
SCENE ?=
SIM ?= go test -count=1 ./singleworker/internal/sim
.PHONY: sim
sim: MINUTES ?= 60
sim: ## SEEDS (500) seeds from SEED_BASE (1) of the simulation, MINUTES (60) virtual minutes each; KIND=clocks, calendars, after, limits or losses; SCENE of a seed
	@$(SIM) -test.run='^TestSimulation$$' -test.v -test.timeout=0 \
		-sim.seeds=$(SEEDS) -sim.base=$(SEED_BASE) -sim.minutes=$(MINUTES) -sim.breach=$(BREACH) -sim.kind=$(KIND) -sim.scene=$(SCENE) \
		| sed -un 's/^  *sim_test.go:[0-9]*: //p; /^   *[^ ]/{/sim_test.go/!p}; /^panic/,$$p'

# Breaks one rule after the other, and runs the tests that should notice; fails if they do not. Not part of test:
# it takes most of an hour on two cores.
ONLY ?=
.PHONY: mutants
mutants: ## a small change of the code for each rule, which its tests must notice; ONLY=lease: those of a list or file
	go run ./singleworker/internal/mutants -only '$(ONLY)'

# Takes some minutes. One world at a time: each needs memory for every state.
.PHONY: explore
explore: ## every interleaving of small worlds of the protocol, and a table of what was explored
	@go test -count=1 -timeout 0 -v -parallel 1 -run '^TestExplore' -sim.all -sim.explore ./singleworker/internal/{lease,ticks} \
		| sed -un 's/^  *explore_test.go:[0-9]*: //p; /^   *[^ ]/{/explore_test.go/!p}; /^panic/,$$p'

.PHONY: fuzz
fuzz: ## every fuzz target for FUZZTIME (30s)
	@for package in $$(go list ./...); do \
		for target in $$(go test -list '^Fuzz' "$$package" | grep '^Fuzz'); do \
			echo "$$package $$target"; \
			go test -run '^$$' -fuzz "^$$target\$$" -fuzztime $(FUZZTIME) "$$package"; \
		done; \
	done

.PHONY: bench
bench: ## the benchmarks, with allocations
	go test -run '^$$' -bench . -benchmem $(UNIT)

# One line per measurement, which benchstat reads, and then a table of medians. SESSION, LIMIT and WINDOW are durations. The server has its
# whole heap from the start, as in production: one that grows from 32 MB stops for 15 to 50 ms to collect in every second crowd.
ROWS    ?=
SIZES   ?=
COUNT   ?= 1
LIMIT   ?= 1m
WINDOW  ?= 2m
SESSION ?= 4s
BENCH    = ZOOKEEPER_HEAP=$${ZOOKEEPER_HEAP:-2g} go test -count=1 -timeout 0 -v -run '^TestBench$$' ./integration/bench -bench.full -bench.rows='$(ROWS)' -bench.sizes='$(SIZES)' \
	-bench.count=$(COUNT) -bench.limit=$(LIMIT) -bench.window=$(WINDOW) -bench.session=$(SESSION)
.PHONY: bench-cluster
bench-cluster: setup ## groups of processes on a real ZooKeeper: ROWS=rest,start SIZES=100x6,1000x6 COUNT=3 LIMIT=1m WINDOW=2m
	@$(BENCH) | sed -u '/^=== /d; /^ *--- PASS/d'

# A small group, so that every row keeps working.
.PHONY: bench-short
bench-short: setup
	go test -count=1 -timeout 15m ./integration/bench

# With SYSTEMS= it leaves the peers out; ROWS leaves out others of the rows.
.PHONY: bench-cost
bench-cost: SYSTEMS = singleworker,gocron,river
bench-cost: setup ## what jobs cost, what that should be, and what it is with gocron and redis, and with River: ROWS=rest COUNT=3 WINDOW=2m
	@lines=$$(mktemp); trap 'rm -f "$$lines"' EXIT; \
	[[ -z '$(SYSTEMS)' ]] || $(MAKE) --no-print-directory compare compare-crowd SYSTEMS='$(SYSTEMS)' | tee "$$lines"; \
	$(BENCH) -bench.cost -bench.beside="$$lines" | sed -u '/^=== /d; /^ *--- PASS/d'

# A module of its own, because the library must not depend on what it is compared with. As root on Debian it installs
# redis, PostgreSQL, Quartz and a JDK. Of what a worker logs after a kill, the line for each job is left out.
SYSTEMS ?=
.PHONY: compare compare-crowd
compare: ## the same jobs on gocron with redis, River, and Quartz; SYSTEMS=singleworker,gocron,river,quartz,quartz-tuned
compare-crowd: ## kills in PHASES (2, or 960ms,500ms) of a crowd's second, KILLS (1) in each, SESSIONS=4s,10s,30s; SYSTEMS=singleworker,gocron
compare: COMPARE := -skip '^TestCrowd$$'
compare-crowd: PHASES ?= 2
compare-crowd: SESSIONS ?= 4s
compare-crowd: KILLS ?= 1
compare-crowd: COMPARE = -run '^TestCrowd$$' -compare.phases='$(PHASES)' -compare.sessions='$(SESSIONS)' -compare.kills='$(KILLS)'
compare compare-crowd: setup
	integration/compare/install.sh
	cd integration/compare && go vet ./...
	@cd integration/compare && go test -count=1 -timeout 0 -v . $(COMPARE) -compare.systems='$(SYSTEMS)' \
		| sed -u '/^=== /d; /^ *--- PASS/d; / WARN ticks not run /d; / WARN job taken over: /d'

.PHONY: build
build: ## swctl, into bin/
	go build -o bin/ ./cmd/swctl

.PHONY: build-sql
build-sql: ## swctl-sql, which is swctl with drivers for databases, into bin/
	cd cmd/swctl/swctl-sql && CGO_ENABLED=0 go build -o ../../../bin/ .

# The same commit gives the same bytes.
.PHONY: release
release: ## swctl and swctl-sql for Linux and macOS into dist/, with checksums
	rm -rf dist
	export CGO_ENABLED=0; for platform in {linux,darwin}_{amd64,arm64}; do export GOOS=$${platform%_*} GOARCH=$${platform#*_}; \
	build() { go build -C $$1 -trimpath -ldflags=-s -o $(CURDIR)/dist/$${1##*/}_$$platform .; }; \
	GOWORK=off build cmd/swctl && GOWORK=$(CURDIR)/go.work build cmd/swctl/swctl-sql || exit; done
	cd dist && sha256sum * > SHA256SUMS

.PHONY: clean
clean: ## remove what build and release made
	rm -rf bin dist

# `make` or `make help` says what there is.

PYTHON ?= $(shell command -v python3.11 || command -v python3)
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
CASE ?=
PYTEST_ARGS ?=

.DEFAULT_GOAL := help
.PHONY: help setup java demo demo-failover demo-mirror demo-plants demo-shipping test test-one-half test-other-half test-with-clients test-with-kills test-fast check \
	format simulate crash soak format-fixture interop bench bench-quick clean

help: ## every target
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "make %-13s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

setup: $(STAMP) ## the virtual environment, with what the tests and checks need

$(STAMP): pyproject.toml scripts/venv-setup
	scripts/venv-setup "$(PYTHON)" "$(VENV)"
	touch $@

java: ## a Java of its own, if the machine has none that Spark can use
	scripts/java-setup

demo: setup java ## sets everything up and shows a stream replicated between two clusters
	$(BIN)/python -m examples.ships.demo

demo-failover: setup java ## two clusters in multi-master: one is killed, the other takes over, the first returns
	$(BIN)/python -m examples.ships.failover

demo-mirror: setup java ## two clusters of Apache Kafka mirrored to Fairlead; the mirror is killed and goes on
	scripts/jars-setup benchmarks/systems/java/pom.xml .make/bench/jars
	$(BIN)/python -m examples.mirror.demo

demo-plants: setup java ## plants on two continents, read by one Spark query on a third; Spark is killed and catches up
	$(BIN)/python -m pip install --quiet --group charts
	$(BIN)/python -m examples.plants.demo

demo-shipping: setup java ## ducks from Tokyo to London and Sydney: five offices, two ships, two other companies
	$(BIN)/python -m pip install --quiet --group charts
	$(BIN)/python -m examples.shipping.demo

test: setup java ## sets up what the tests need and runs them all; PYTEST_ARGS="-k name" some
	scripts/interop-setup
	@$(MAKE) --no-print-directory --jobs 2 test-one-half test-other-half
	@$(MAKE) --no-print-directory --jobs 2 test-with-clients test-with-kills

# First what computes, in two halves that take about as long as one another; a process for each core, and none beside
# them. Then what mostly waits for other processes, side by side: those with clients that we did not write, and those
# with Spark or kills. All are shown as they go on. A test that hangs fails, by its name.
HUNG := --timeout 300 --session-timeout 3600
ALONE := not spark and not interop and not crash
ONE_HALF := tests/benchmarks tests/broker tests/cases tests/cli tests/client tests/kafka tests/mirror tests/wire
OTHER_HALF := tests $(ONE_HALF:%=--ignore=%)
NONE_CHOSEN := || test $$? -eq 5
HALF := $(BIN)/python -m pytest -m "$(ALONE)" $(HUNG) $(PYTEST_ARGS)

test-one-half: setup
	$(HALF) $(ONE_HALF) $(NONE_CHOSEN)

test-other-half: setup
	$(HALF) $(OTHER_HALF) $(NONE_CHOSEN)

test-with-clients: setup
	$(BIN)/python -m pytest -m interop $(HUNG) $(PYTEST_ARGS) $(NONE_CHOSEN)

test-with-kills: setup
	$(BIN)/python -m pytest -m "(spark or crash) and not interop" $(HUNG) $(PYTEST_ARGS) $(NONE_CHOSEN)

# Files lie in memory, where there is such a file system, and the simulation plays fewer seeds.
test-fast: export FAIRLEAD_TEST_RUNS = 40
test-fast: export PYTEST_DEBUG_TEMPROOT = $(wildcard /dev/shm)
test-fast: PYTEST_ARGS += -o tmp_path_retention_policy=failed
test-fast: setup ## the tests without Spark, foreign clients and kills, on two cores in some minutes
	@$(MAKE) --no-print-directory --jobs 2 --output-sync=target test-one-half test-other-half \
		PYTEST_ARGS="$(PYTEST_ARGS)"

check: setup ## lint, types, import rules
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

format: setup ## puts the code into its form
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

simulate: SEEDS ?= 0:1000
simulate: setup ## runs of several sites in memory; SEEDS=first:count chooses, MUTATION=name switches a rule off
	FAIRLEAD_TEST_SEEDS=$(SEEDS) FAIRLEAD_TEST_MUTATION=$(MUTATION) $(BIN)/python -m pytest -x \
		tests/properties/test_simulation.py -k 'silently_missing' $(PYTEST_ARGS)

format-fixture: setup ## the data directory by which later programs prove that they read this format, made anew
	$(BIN)/python -m tests.formats.making

crash: ROUNDS ?= 20
crash: setup java ## the kill tests, longer with ROUNDS=100
	FAIRLEAD_TEST_ROUNDS=$(ROUNDS) $(BIN)/python -m pytest -m crash $(PYTEST_ARGS)

soak: HOURS ?= 1
soak: setup java ## a mirror under load and random harms for HOURS=1, with a report; ARGS="--nodes 1" and others
	scripts/jars-setup benchmarks/systems/java/pom.xml .make/bench/jars
	$(BIN)/python -m tests.crash.mirrors.soak --hours $(HOURS) $(ARGS)

interop: setup java ## a table of Kafka client x behaviour
	scripts/interop-setup
	$(BIN)/python -m tests.interop.table

bench: ROUNDS ?= 3
bench: POINT ?= *
bench: SYSTEM ?= *
bench: setup java ## Fairlead beside Kafka and MirrorMaker 2, hours; some with CASE=produce,consume ROUNDS=5
	scripts/bench-setup
	$(BIN)/python -m pip install --quiet --group charts
	$(BIN)/python -m benchmarks --rounds $(ROUNDS) --case "$(CASE)" --point "$(POINT)" --system "$(SYSTEM)"
	$(BIN)/python -m benchmarks.charts

bench-quick: setup java ## every case of the bench small, Fairlead alone
	scripts/jars-setup tests/interop/java/pom.xml .make/kafka
	scripts/jars-setup benchmarks/systems/java/pom.xml .make/bench/jars
	$(BIN)/python -m benchmarks.start
	$(BIN)/python -m benchmarks --quick --case "$(CASE)"

clean: ## removes what setup has made
	rm -rf $(VENV) .make build dist *.egg-info

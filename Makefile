# `make` or `make help` says what there is.

PYTHON ?= $(shell command -v python3.11 || command -v python3)
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
CASE ?=
PYTEST_ARGS ?=

# Without what Python keeps of a module once it is compiled, each process that a test starts would compile all of them.
unexport PYTHONDONTWRITEBYTECODE

.DEFAULT_GOAL := help
.PHONY: help setup java demo demo-failover demo-mirror demo-plants demo-shipping test test-fast check \
	class-archives test-first-third test-second-third test-last-third test-with-clients test-with-kills \
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
	@$(BIN)/python -m pip install --quiet --group charts
	@$(MAKE) --no-print-directory --jobs 4 $(COMPUTING) class-archives
	@$(MAKE) --no-print-directory --jobs 2 $(WAITING)

# First what computes, in three parts, then what mostly waits for other processes and for the disk, in two: with a
# third one Spark's first batch takes minutes. The parts take about as long as one another, side by side on two cores;
# one of each has all that no other has. All are shown as they go on. A test that hangs fails, by its name. Those that
# wait keep their files in memory where there is room: a process that is killed loses nothing there that it would not
# lose on a disk.
COMPUTING := test-first-third test-second-third test-last-third
WAITING := test-with-clients test-with-kills
KILLS := tests/crash tests/spark tests/demo/test_shipping_call.py
WAITS := spark or interop or crash
FIRST_THIRD := tests/cases tests/cli tests/mirror
SECOND_THIRD := tests/broker tests/contracts tests/gateway tests/kafka tests/replication
PYTEST := $(BIN)/python -m pytest --timeout 300 --session-timeout 3600
NONE_CHOSEN := || test $$? -eq 5

$(WAITING): PYTEST := scripts/in-memory $(PYTEST) -o tmp_path_retention_policy=failed

class-archives: setup
	$(BIN)/python -m tests.support.class_archives

test-first-third: setup
	$(PYTEST) -m "not ($(WAITS))" $(PYTEST_ARGS) $(FIRST_THIRD) $(NONE_CHOSEN)

test-second-third: setup
	$(PYTEST) -m "not ($(WAITS))" $(PYTEST_ARGS) $(SECOND_THIRD) $(NONE_CHOSEN)

test-last-third: setup
	$(PYTEST) -m "not ($(WAITS))" $(PYTEST_ARGS) tests $(patsubst %,--ignore=%,$(FIRST_THIRD) $(SECOND_THIRD)) $(NONE_CHOSEN)

test-with-clients: setup
	$(PYTEST) -m "$(WAITS)" $(PYTEST_ARGS) tests $(patsubst %,--ignore=%,$(KILLS)) $(NONE_CHOSEN)

test-with-kills: setup
	$(PYTEST) -m "$(WAITS)" $(PYTEST_ARGS) $(KILLS) $(NONE_CHOSEN)

# Files lie in memory, where there is such a file system, and the simulation plays fewer seeds.
test-fast: export FAIRLEAD_TEST_RUNS = 40
test-fast: export PYTEST_DEBUG_TEMPROOT = $(wildcard /dev/shm)
test-fast: PYTEST_ARGS += -o tmp_path_retention_policy=failed
test-fast: setup ## the tests without Spark, foreign clients and kills, on two cores in some minutes
	@$(MAKE) --no-print-directory --jobs 3 --output-sync=target $(COMPUTING) PYTEST_ARGS="$(PYTEST_ARGS)"

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
		tests/properties/test_simulation.py tests/properties/test_pending.py -k 'silently_missing or put_aside' $(PYTEST_ARGS)

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

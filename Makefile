# make demo   sets everything up and shows a stream replicated between two clusters
# make test   sets up what the tests need and runs them all
# make check  lint, types, import rules
# make crash ROUNDS=20   the kill tests for longer
# make interop           a table of Kafka client x behaviour
# make bench             Fairlead beside Apache Kafka and MirrorMaker 2, hours; goes on where it was ended
# make bench CASE=produce,consume ROUNDS=5   some cases, more often
# make bench-quick       every case of the bench small, Fairlead alone

PYTHON ?= $(shell command -v python3.11 || command -v python3)
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
CASE ?=
PYTEST_ARGS ?=

.PHONY: setup java demo test test-fast check format crash interop bench bench-quick clean

setup: $(STAMP)

$(STAMP): pyproject.toml scripts/venv-setup
	scripts/venv-setup "$(PYTHON)" "$(VENV)"
	touch $@

java:
	scripts/java-setup

demo: setup java
	$(BIN)/python -m examples.ships.demo

test: setup java
	scripts/interop-setup
	$(BIN)/python -m pytest $(PYTEST_ARGS)

test-fast: setup
	$(BIN)/python -m pytest -m "not spark and not interop and not crash" $(PYTEST_ARGS)

check: setup
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

format: setup
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

crash: ROUNDS ?= 20
crash: setup java
	FAIRLEAD_TEST_ROUNDS=$(ROUNDS) $(BIN)/python -m pytest -m crash $(PYTEST_ARGS)

interop: setup java
	scripts/interop-setup
	$(BIN)/python -m tests.interop.table

bench: ROUNDS ?= 3
bench: POINT ?= *
bench: SYSTEM ?= *
bench: setup java
	scripts/bench-setup
	$(BIN)/python -m pip install --quiet --group bench
	$(BIN)/python -m benchmarks --rounds $(ROUNDS) --case "$(CASE)" --point "$(POINT)" --system "$(SYSTEM)"
	$(BIN)/python -m benchmarks.charts

bench-quick: setup java
	$(BIN)/python -m benchmarks --quick --case "$(CASE)"

clean:
	rm -rf $(VENV) .make build dist *.egg-info

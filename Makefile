# make demo   sets everything up and shows a stream replicated between two clusters
# make test   sets up what the tests need and runs them all
# make check  lint, types, import rules
# make crash ROUNDS=20   the kill tests for longer
# make interop           a table of Kafka client x behaviour

PYTHON ?= $(shell command -v python3.11 || command -v python3)
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
ROUNDS ?= 20
PYTEST_ARGS ?=

.PHONY: setup java demo test test-fast check format crash interop clean

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

crash: setup java
	FAIRLEAD_TEST_ROUNDS=$(ROUNDS) $(BIN)/python -m pytest -m crash $(PYTEST_ARGS)

interop: setup java
	scripts/interop-setup
	$(BIN)/python -m tests.interop.table

clean:
	rm -rf $(VENV) .make build dist *.egg-info

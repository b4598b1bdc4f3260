PYTHON ?= python3.11
VENV := .venv
BIN := $(VENV)/bin

.PHONY: help setup demo demo-train test test-slow fuzz lint bench schemas clean

help:  ## Show this list
	@grep -E '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 14

$(BIN)/python:
	$(PYTHON) -m venv $(VENV)
	$(BIN)/pip install -q --upgrade pip

$(VENV)/.demo: $(BIN)/python pyproject.toml
	$(BIN)/pip install -q -e ".[codec,memory]"
	@touch $@

$(VENV)/.demo-train: $(BIN)/python pyproject.toml
	$(BIN)/pip install -q -e ".[codec,memory,train]"
	@touch $@

$(VENV)/.dev: $(BIN)/python pyproject.toml
	$(BIN)/pip install -q -e ".[all,dev]"
	@touch $(VENV)/.demo $(VENV)/.demo-train $@

setup: $(VENV)/.dev  ## Install everything, with the tools for development

demo: $(VENV)/.demo  ## Install, build the example corpus and show the result
	$(BIN)/inkplex-data demo

demo-train: $(VENV)/.demo-train  ## Train on a made task on the CPU and show that the memory is read, then a small speech model (minutes)
	$(BIN)/python examples/demo_train.py
	$(BIN)/python examples/demo_voice.py

test: $(VENV)/.dev  ## Install, then lint and test (tests that take over a minute are in test-slow)
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/pytest -n 2 --dist loadfile

test-slow: $(VENV)/.dev  ## Run the tests that take over a minute
	$(BIN)/pytest -m slow

fuzz: $(VENV)/.dev  ## Injure files at random for a day and see that every reader takes or refuses them
	$(BIN)/python -m tests.fuzz.run --hours 24

lint: $(VENV)/.dev  ## Run ruff and mypy
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

bench: $(VENV)/.dev  ## Run every benchmark; each prints a ratio against a baseline measured in the same run
	@for script in benchmarks/*.py; do echo "== $$script"; $(BIN)/python $$script || exit 1; done

schemas: $(VENV)/.dev  ## Write schemas/*.schema.json from the models
	$(BIN)/inkplex-data schema export

clean:  ## Remove the virtual environment and all build output
	rm -rf $(VENV) out build dist

# `make demo` and `make test` do all set-up in .venv by themselves; the second time they are fast.
PYTHON ?= $(shell command -v python3.11 || command -v python3)
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready

.DEFAULT_GOAL := help
.PHONY: help demo test test-faults check bench clean

help: ## list the targets
	@grep -E '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):.*## /\1\t/' | expand -t 14

$(READY): pyproject.toml constraints.txt
	@$(PYTHON) -c "import sys; sys.exit(sys.version_info < (3, 11))" || { echo "Python 3.11 or newer is needed; run make PYTHON=/path/to/python"; exit 1; }
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --upgrade-strategy only-if-needed -c constraints.txt -e '.[torch,dev]'
	touch $(READY)

demo: $(READY) ## tune an SVM on sonar, robustly, on local Ray
	$(BIN)/drbqo demo

test: $(READY) ## run the whole test suite
	$(BIN)/python -m pytest -n 2 --dist loadfile

test-faults: $(READY) ## run the long fault-injection loops
	$(BIN)/python -m pytest -m faults

check: $(READY) ## lint, format and types
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

bench: $(READY) ## measure speed beside its yardsticks
	$(BIN)/python -m pip install --quiet -c constraints.txt -e '.[bench]'
	OMP_NUM_THREADS=1 $(BIN)/python -m benchmarks

clean: ## remove the virtual environment and caches
	rm -rf $(VENV) build dist *.egg-info .pytest_cache .mypy_cache .ruff_cache

# `make demo` and `make test` do all set-up in .venv by themselves; the second time they are fast.
PYTHON ?= $(shell command -v python3.11 || command -v python3)
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready

.DEFAULT_GOAL := help
.PHONY: help demo test test-faults test-cluster coverage check docs bench clean

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
	$(BIN)/python -m pytest -n 2 --dist loadfile --max-worker-restart 0

test-faults: $(READY) ## run the long fault-injection loops
	$(BIN)/python -m pytest -m faults

test-cluster: $(READY) ## run on hosts in network namespaces while they fail; needs root
	$(BIN)/python -m pytest -s -m cluster tests/cluster

coverage: $(READY) ## measure what of the code the tests run; writes docs/results/coverage.md
	$(BIN)/coverage run -m pytest -n 2 --dist loadfile
	$(BIN)/coverage combine --quiet
	{ printf '# Coverage\n\n`make coverage`, %s, commit %s. Lines and branches of `drbqo_ray` and `workers` that the suite runs; files that it runs whole are not listed.\n\n' "$$(date -u +%F)" "$$(git rev-parse --short HEAD)"; $(BIN)/coverage report --format=markdown; } > docs/results/coverage.md
	@grep TOTAL docs/results/coverage.md

check: $(READY) ## lint, format and types
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

docs: $(READY) ## build the site into docs/_build; warnings are errors
	$(BIN)/python -m pip install --quiet -c constraints.txt -e '.[docs,optuna,boosters]'
	$(BIN)/python -m sphinx --fail-on-warning --keep-going --quiet -b html docs docs/_build
	@echo "Open docs/_build/index.html"

bench: $(READY) ## measure speed beside its yardsticks
	$(BIN)/python -m pip install --quiet -c constraints.txt -e '.[bench]'
	OMP_NUM_THREADS=1 $(BIN)/python -m benchmarks

clean: ## remove the virtual environment and caches
	rm -rf $(VENV) build dist docs/_build docs/gallery *.egg-info .pytest_cache .mypy_cache .ruff_cache

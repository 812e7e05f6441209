# Everything a developer types. Each target sets up what it needs and is quick when nothing changed.
# Needs only Python 3.11+ (with venv) and make: uv, PostgreSQL and all libraries come from the package index.

# The distribution's Python where it will do: one that somebody compiled often lacks optimisation, and a tenth of the speed.
PYTHON ?= $(shell for python in /usr/bin/python3 python3; do \
  $$python -c 'import ensurepip, sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && break; done; echo $$python)
BIN := .venv/bin
READY := .venv/.ready
SIDE_BY_SIDE := -n 4 --dist loadscope --no-loadscope-reorder
# Everything here starts short processes by the hundred; without bytecode on disk each would compile all it imports.
unexport PYTHONDONTWRITEBYTECODE

.DEFAULT_GOAL := help
.PHONY: help setup demo test test-fast check format bench torture lab-smoke results screenshots docs lock notice audit clean

help: ## list what can be made
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | awk -F ':.*## ' '{printf "  make %-10s %s\n", $$1, $$2}'

setup: $(READY) ## make .venv with everything installed, as locked

$(BIN)/uv: requirements-build.lock
	@$(PYTHON) -c 'import sys; sys.exit("Stafette needs Python 3.11 or newer; set PYTHON=/path/to/python3.11" if sys.version_info < (3, 11) else 0)'
	@$(PYTHON) -m venv .venv
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements-build.lock
	@touch $@

$(READY): pyproject.toml requirements.lock $(BIN)/uv
	@$(BIN)/uv pip install --quiet --python $(BIN)/python --require-hashes -r requirements.lock
	@$(BIN)/uv pip install --quiet --python $(BIN)/python --no-deps --no-build-isolation --editable .
	@touch $@

demo: ## start everything in .demo/, pass messages, run an experiment in the console; STOP=--stop ends it again
	@$(MAKE) --question $(READY) || { \
	  echo "Installing Stafette and all it needs in .venv: 1.6 GB, half a minute where the network is fast"; \
	  { while sleep 5 && kill -0 $$$$ 2>/dev/null; do echo "     …"; done; } & \
	  $(MAKE) --no-print-directory $(READY); code=$$?; kill $$!; exit $$code; }
	@$(BIN)/python examples/demo.py $(STOP)

test: $(READY) ## run every test, on a real PostgreSQL, with real processes and a real browser if there is one
	@$(BIN)/python -m pytest $(SIDE_BY_SIDE)

test-fast: $(READY) ## run the tests that take less than a few seconds each
	@$(BIN)/python -m pytest $(SIDE_BY_SIDE) -m "not slow"

check: $(READY) ## ruff, mypy --strict, import contracts
	@$(BIN)/ruff format --check
	@$(BIN)/ruff check
	@$(BIN)/mypy
	@$(BIN)/lint-imports

format: $(READY) ## let ruff put the code in order
	@$(BIN)/ruff format
	@$(BIN)/ruff check --fix

bench: $(READY) ## measure, on this machine, as ratios within one run
	@$(BIN)/python -m bench.database
	@$(BIN)/python -m bench.broker
	@$(BIN)/python -m bench.limits
	@$(BIN)/python -m bench.deletes
	@$(BIN)/python -m bench.reconnect
	@$(BIN)/python -m bench.failover
	@$(BIN)/python -m bench.replay
	@$(BIN)/python -m bench.hostile
	@$(BIN)/python -m bench.strangers
	@$(BIN)/python -m bench.tracing
	@$(BIN)/python -m bench.pipeline

torture: $(READY) ## break everything under load and check what was promised; ARGS="--kills 5 --fault …", or ARGS=--defects
	@$(BIN)/python -m bench.torture $(ARGS)

lab-smoke: $(READY) ## run one quick experiment of each kind and check all counts
	@$(BIN)/python -m bench.lab_smoke

results: $(READY) ## run the quick profile of every experiment, an hour in all, and write docs/results.md
	@$(BIN)/python -m bench.results

screenshots: $(READY) ## look at the main pages with Chromium, light and dark, and keep what was seen in docs/images
	@$(BIN)/python -m tests.browser.screenshots

docs: $(READY) ## make the pages a site in .docs/, with the reference from the code; every warning is an error
	@$(BIN)/sphinx-build --quiet --fail-on-warning --keep-going -c docs . .docs
	@echo "the site is at file://$(CURDIR)/.docs/index.html"

lock: | $(BIN)/uv ## choose the newest versions that fit pyproject.toml and write them down with hashes
	@$(BIN)/uv pip compile --quiet --universal --all-extras --generate-hashes --no-emit-index-url --no-header \
	  --upgrade --output-file requirements.lock pyproject.toml
	@printf 'uv\nuv-build>=0.13,<0.14\n' | $(BIN)/uv pip compile --quiet --universal --generate-hashes --no-emit-index-url \
	  --no-header --no-annotate --upgrade --output-file requirements-build.lock -
	@$(MAKE) --no-print-directory notice

notice: $(READY) ## write NOTICE: what is installed with Stafette, and under which licences
	@$(BIN)/python tools/notice.py

audit: $(READY) ## look for known vulnerabilities in what is locked, where the database of them can be reached
	@$(BIN)/python tools/audit.py

clean: ## remove the environment and caches, never data
	rm -rf .venv .mypy_cache .ruff_cache .pytest_cache .import_linter_cache .hypothesis .docs

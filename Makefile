# Everything a newcomer needs: `make demo` and `make test`. Both set up .venv on their own.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check -q install

.PHONY: docs axe screenshots demo test test-slow coverage setup bench-setup peers lint format clean

demo: $(VENV)/.core
	@$(BIN)/tacit demo

setup: $(VENV)/.dev

test: $(VENV)/.dev
	@echo "== lint, types, imports"
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .
	@$(BIN)/mypy -n 2
	@$(BIN)/lint-imports --no-logo
	@if command -v npm >/dev/null; then $(MAKE) -s axe || true; fi
	@echo "== tests and doctests"
	@$(BIN)/python -m pytest -n 2 --dist worksteal -m "not slow" -q

coverage: $(VENV)/.dev
	@$(BIN)/python -m pytest -n 2 --dist worksteal -m "not slow" --cov --cov-report=term:skip-covered -q

test-slow: $(VENV)/.dev
	@$(BIN)/python -m pytest -n 2 -m slow -q

# the guide, build/docs/<version>/, with what its examples show; a warning or a broken link is an error.
# Pages are run again where they or tacit changed.
docs: $(VENV)/.dev
	@$(BIN)/python -m sphinx --fail-on-warning --keep-going -q -j 2 -d build/doctrees docs \
		build/docs/$$($(BIN)/python -c "import tacit; print(tacit.__version__)")
	@echo "build/docs/index.html"

lint: $(VENV)/.dev
	@$(BIN)/ruff check . && $(BIN)/ruff format --check . && $(BIN)/mypy -n 2 && $(BIN)/lint-imports --no-logo

format: $(VENV)/.dev
	@$(BIN)/ruff check --fix . ; $(BIN)/ruff format .

$(VENV)/bin/python:
	@echo "== creating $(VENV)"
	@$(PYTHON) -m venv $(VENV)

$(VENV)/.core: pyproject.toml | $(VENV)/bin/python
	@echo "== installing tacit (once, about a minute)"
	@$(PIP) -e . && touch $@

$(VENV)/.dev: pyproject.toml | $(VENV)/bin/python
	@echo "== installing tacit and what its tests need (once, one or two minutes)"
	@$(PIP) -e '.[dev]' && touch $@ $(VENV)/.core

# peers for benchmarks live in an environment of their own: .venv-bench/bin/python -m benchmarks …
bench-setup: .venv-bench/.done

.venv-bench/.done: pyproject.toml benchmarks/requirements.txt
	@echo "== installing tacit and its peers into .venv-bench"
	@test -x .venv-bench/bin/python || $(PYTHON) -m venv .venv-bench
	@.venv-bench/bin/python -m pip --disable-pip-version-check -q install -e . -r benchmarks/requirements.txt
	@touch $@

# diffprivlib needs an older scikit-learn, so it lives apart; `regression-table71` finds it
peers: .venv-diffprivlib/.done

.venv-diffprivlib/.done: benchmarks/requirements-diffprivlib.txt
	@echo "== installing diffprivlib into .venv-diffprivlib"
	@test -x .venv-diffprivlib/bin/python || $(PYTHON) -m venv .venv-diffprivlib
	@.venv-diffprivlib/bin/python -m pip --disable-pip-version-check -q install -r benchmarks/requirements-diffprivlib.txt
	@touch $@

# axe checks the accessibility of the report and of the guide, where there is a Chromium
axe: node_modules/axe-core/axe.min.js

node_modules/axe-core/axe.min.js:
	@npm install --silent --no-save --no-audit --no-fund axe-core@4

# the pictures of report, notebook and guide that the guide shows; needs a Chromium
screenshots: docs
	@$(BIN)/python -m tests.report.screenshots docs/images \
		build/docs/$$($(BIN)/python -c "import tacit; print(tacit.__version__)")

clean:
	@rm -rf $(VENV) .venv-bench .venv-diffprivlib build dist demo-result .coverage .hypothesis .mypy_cache .ruff_cache .pytest_cache

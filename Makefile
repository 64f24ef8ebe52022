# `make run` and `make test` need Python 3.11 or newer, make and a package index; they set up the rest in .venv.
PYTHON ?= python3
BIN := .venv/bin

.PHONY: run test test-slow test-kernels lint format bench clean

.venv/installed: pyproject.toml
	$(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --upgrade pip
	$(BIN)/python -m pip install --quiet --editable ".[dev]"
	$(BIN)/plb warmup
	touch $@

run: .venv/installed
	$(BIN)/plb simulate examples/quickstart.toml --out results/quickstart --force

lint: .venv/installed
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

test: lint
	$(BIN)/pytest -n 2 -m "not slow"

test-slow: .venv/installed
	$(BIN)/pytest -m slow

# kernels as plain Python, where an index out of range is an error
test-kernels: .venv/installed
	NUMBA_DISABLE_JIT=1 $(BIN)/pytest -n 2 -m kernels

bench: .venv/installed
	$(BIN)/plb bench engine
	$(BIN)/pytest benchmarks

format: .venv/installed
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

clean:
	rm -rf .venv results build dist *.egg-info

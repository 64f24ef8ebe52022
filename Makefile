# `make run` and `make test` need Python 3.11 or newer, make and a package index; they set up the rest in .venv.
PYTHON ?= python3
# the version with which examples/learning was trained; with another one, weights may differ in their last bits
TORCH ?= torch==2.13.0
BIN := .venv/bin

.PHONY: run pages pythons test test-slow test-kernels coverage mutants lint format bench docs policy browser clean

.venv/run: pyproject.toml
	$(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --editable .
	touch $@

# the tools of development, and all kernels, as tests compile many
.venv/installed: .venv/run
	$(BIN)/python -m pip install --quiet --upgrade pip
	$(BIN)/python -m pip install --quiet --editable ".[dev]"
	$(BIN)/plb warmup
	touch $@

.venv/learning: .venv/installed
	$(BIN)/python -m pip install --quiet "$(TORCH)"
	$(BIN)/python -m pip install --quiet --editable ".[learning]"
	touch $@

run: .venv/run
	$(BIN)/plb simulate examples/quickstart.toml --out results/quickstart --force

lint: .venv/installed
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

# the tests start hundreds of processes, which load byte code, whatever the environment says
test: export PYTHONDONTWRITEBYTECODE :=
test: lint .venv/learning
	$(BIN)/pytest -n 2 -m "not slow"

test-slow: .venv/learning
	$(BIN)/pytest -m slow --hypothesis-profile=full

# the tables of the pages from the figures in docs/data
pages: .venv/installed
	$(BIN)/python docs/tables

# a wheel in an empty environment and the tests, with each supported Python that the machine has
pythons: .venv/installed
	$(BIN)/nox

# kernels as plain Python, where an index out of range is an error
test-kernels: .venv/installed
	NUMBA_DISABLE_JIT=1 $(BIN)/pytest -n 2 -m kernels --hypothesis-profile=few

# branches that the compiled suite and the kernels as plain Python reach together
coverage: .venv/learning
	$(BIN)/pytest -n 2 -m "not slow" --cov --cov-report=
	NUMBA_DISABLE_JIT=1 $(BIN)/pytest -n 2 -m kernels --hypothesis-profile=few --cov --cov-append --cov-report=term-missing:skip-covered --cov-fail-under=95

# a seeded sample of mutants of accumulators, constraints and eligibility, tried by the kernel tests
mutants: .venv/installed
	$(BIN)/python benchmarks/mutants.py

bench: .venv/learning
	$(BIN)/plb bench engine
	$(BIN)/pytest benchmarks

docs: .venv/installed
	$(BIN)/sphinx-build -W --keep-going -q docs build/docs
	@echo "The pages are in build/docs; begin with build/docs/index.html"

# the policy that examples/learning brings along, anew: the same weights on the same kind of processor
policy: .venv/learning
	$(BIN)/plb learn train examples/learning/deepplace.toml --out results/deepplace --force
	cp results/deepplace/policy.pt examples/learning/deepplace.pt

# Debian's Chromium, with which the console is tested; without it, these tests are skipped
browser:
	apt-get install --yes chromium

format: .venv/installed
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

clean:
	rm -rf .venv results build dist *.egg-info

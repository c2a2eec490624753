# `make run` and `make test` are all a first visitor needs; both work in a fresh clone.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
# Newer pips pass on what setuptools says of every editable installation.
INSTALL := PYTHONWARNINGS='ignore:Editable installation' $(BIN)/python -m pip install --disable-pip-version-check --quiet $(INSTALL_OPTIONS) --constraint constraints.txt
DECLARED := pyproject.toml constraints.txt
SOURCES := $(shell find unlearnbench plugins -name '*.py')
# Pages that hold what a program writes into them; the rest of the site is made when it is built.
# Without --quiet, which makes mkdocs overlook warnings.
DOCS := docs/cli.md docs/results_format.md

# An editable install with more extras serves every target that needs fewer, and follows the sources by itself.
ifneq ($(wildcard $(VENV)/dev.stamp),)
FOR_RUN := $(VENV)/dev.stamp
FOR_TEST := $(VENV)/dev.stamp
else ifneq ($(wildcard $(VENV)/test.stamp),)
FOR_RUN := $(VENV)/test.stamp
FOR_TEST := $(VENV)/test.stamp
else
FOR_RUN := $(VENV)/run.stamp
FOR_TEST := $(VENV)/test.stamp
endif
FOR_CHECK := $(VENV)/dev.stamp

.PHONY: help run test test-slow test-all check check-style check-types check-site check-results dist docs fuzz soak evidence bench bench-gpu clean

help:
	@echo "make run    install into $(VENV) and compare SISA, GraphEraser, GraphRevoker and Retrain"
	@echo "make test   install what tests need and run all that are not slow: 3 minutes on 2 cores"
	@echo "make test-slow  run the slow ones: clusters, browsers, fresh environments, kills, published graphs"
	@echo "make test-all  run every test"
	@echo "make check  lint, types, import rules, spelling, generated docs"
	@echo "make dist   build the wheel and the sdist in build/dist and check them as a package index would"
	@echo "make fuzz   feed 10,000 odd run files, brackets, records and graph files, and run 200 cells in one process"
	@echo "make docs   generate $(DOCS) anew and build the site in build/site"
	@echo "make bench  run the scripts in benchmarks/ that need no GPU"
	@echo "make bench-gpu  compare lockstep training with a loop on a CUDA device"
	@echo "make soak   kill runs a hundred times at random moments and look for what was lost: a quarter of an hour"
	@echo "make evidence  make every record in results/ that is missing; first says how long it takes (ONLY=plan: nothing else)"
	@echo "make clean  delete $(VENV)"

run: $(FOR_RUN)
	$(BIN)/unlearnbench run --methods sisa,grapheraser,graphrevoker --out runs/first

# A worker that has nothing left to do takes over half of another's tests, so that a few long ones hold nothing up.
WORKERS ?= auto
PYTEST = $(BIN)/python -m pytest -n $(WORKERS) --dist worksteal

test: $(FOR_TEST)
	$(PYTEST) -m "not slow"

# Slow tests often wait for processes of their own: one worker more than there are cores keeps the cores busy.
test-slow: WORKERS = $(shell $(PYTHON) -c "import os; print(1 + (os.cpu_count() or 1))")
test-slow: $(FOR_TEST)
	$(PYTEST) -m slow

test-all: $(FOR_TEST)
	$(PYTEST)

# Parts of their own, so that `make -j2 check` uses two cores.
check: check-types check-site check-style check-results

check-style: $(FOR_CHECK)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/lint-imports
	$(BIN)/codespell

check-types: $(FOR_CHECK)
	$(BIN)/mypy

check-site: $(FOR_CHECK)
	$(BIN)/cog --check $(DOCS)
	SITE=check $(BIN)/mkdocs build --strict --site-dir build/checked-site

check-results: $(FOR_CHECK)
	$(BIN)/unlearnbench leaderboard verify results

dist: $(FOR_CHECK)
	rm -rf build/lib build/dist
	$(BIN)/python -m build --outdir build/dist . >/dev/null
	$(BIN)/twine check --strict build/dist/*

docs: $(FOR_CHECK)
	$(BIN)/cog -r $(DOCS)
	$(BIN)/mkdocs build --strict

# Another seed each time; it is printed, and FUZZ_SEED=N is how to have the same examples again.
FUZZ ?= 10000
FUZZ_SEED ?= $(shell date +%s)
fuzz: $(FOR_TEST)
	UNLEARNBENCH_FUZZ=$(FUZZ) UNLEARNBENCH_FUZZ_SEED=$(FUZZ_SEED) $(BIN)/python -m pytest tests/fuzz
	$(BIN)/python benchmarks/stress.py

# Some need a data root: the others run all the same, and those that ended badly are named last.
OTHERS := $(addprefix benchmarks/,gpu.py soak.py growth.py evidence_time.py write_pages.py products.py tally_scale.py)
bench: $(FOR_RUN)
	@failed=; for script in $(filter-out $(OTHERS),$(wildcard benchmarks/*.py)); do \
	  echo "== $$script"; $(BIN)/python $$script || failed="$$failed $$script"; \
	done; \
	if [ -n "$$failed" ]; then echo "failed:$$failed" >&2; exit 1; fi

bench-gpu: $(FOR_RUN)
	$(BIN)/python benchmarks/gpu.py

soak: $(FOR_RUN)
	$(BIN)/python benchmarks/soak.py

evidence: $(FOR_RUN)
	UB=$(BIN)/unlearnbench PYTHON=$(BIN)/python bash benchmarks/evidence.sh
	$(BIN)/python benchmarks/write_pages.py

clean:
	rm -rf $(VENV)

$(BIN)/python:
	@$(PYTHON) -c 'import sys; sys.exit("Python 3.11 or newer is needed, this is %d.%d: make PYTHON=python3.11 ..." % sys.version_info[:2] if sys.version_info < (3, 11) else 0)'
	$(PYTHON) -m venv $(VENV)
	@# Python 3.11's own pip takes half as long again, most of it choosing among releases.
	$(INSTALL) --upgrade pip

# setuptools packs whatever an earlier build left in build/lib, deleted modules too.
$(VENV)/run.stamp: $(DECLARED) $(SOURCES) | $(BIN)/python
	rm -rf build/lib
	@echo "installing unlearnbench, torch and what they need into $(VENV): about two minutes the first time"
	$(INSTALL) .
	@touch $@

$(VENV)/test.stamp: $(DECLARED) | $(BIN)/python
	@echo "installing unlearnbench and what its tests need into $(VENV): about three minutes the first time"
	$(INSTALL) --editable '.[test]'
	@rm -f $(VENV)/run.stamp && touch $@

$(VENV)/dev.stamp: $(DECLARED) | $(BIN)/python
	@echo "installing unlearnbench and all tools of its development into $(VENV): about four minutes the first time"
	$(INSTALL) --editable '.[dev]'
	@rm -f $(VENV)/run.stamp $(VENV)/test.stamp && touch $@

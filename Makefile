# make demo | test | lint | fuzz | bench — each builds what it needs once; a second run starts at once.
PYTHON ?= python3
VENV ?= .venv
PYTEST_ARGS ?= -n 2
FUZZ_ARGS ?= --seconds 120
BENCH_ARGS ?=

BIN := $(VENV)/bin
BENCHMARKS := accuracy defaults off_the_shelf linear_start trees_vs_lightgbm round_time prediction scaling startup jobs pseudo_likelihood training_methods sampling shrinkage curvature shared_trees higher_order nettalk_full class_weight missing family output_coding future large_file

.PHONY: demo test lint fuzz bench clean

demo: $(VENV)/.demo
	$(BIN)/seqboost demo

# Tests run side by side, so libraries that start a thread for each core would wait for each other.
test: $(VENV)/.dev
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest $(PYTEST_ARGS)

lint: $(VENV)/.dev
	$(BIN)/ruff check src tests benchmarks fuzz reproduction
	$(BIN)/mypy

# Another attack: make fuzz FUZZ_ARGS="inputs --cases 200000 --seed 7"; with bounds checks: NUMBA_BOUNDSCHECK=1 make fuzz.
fuzz: $(VENV)/.dev
	$(BIN)/python -m fuzz $(FUZZ_ARGS)

# All benchmarks: make bench. One of them: make bench BENCHMARKS=accuracy BENCH_ARGS="--only protein".
bench: $(VENV)/.dev
	@test -n "$(SEQBOOST_DATA)" || { echo "Set SEQBOOST_DATA to the folder of benchmark data (see CONTRIBUTING.md)."; exit 1; }
	set -e; for name in $(BENCHMARKS); do $(BIN)/python benchmarks/$$name.py $(BENCH_ARGS); done

# One stamp file for each set of extras; a changed pyproject.toml installs again.
$(VENV)/.%: pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "seqboost needs Python 3.11 or newer, $(PYTHON) is " + sys.version.split()[0])'
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable ".[$*]"
	@touch $@

clean:
	rm -rf $(VENV) build dist .pytest_cache .mypy_cache .ruff_cache

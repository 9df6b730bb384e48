# `make demo` and `make test` do all the set-up they need. PYTHON picks the interpreter.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
INSTALLED := $(VENV)/.installed
PIP := $(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt

.PHONY: help setup peers locked demo test check docs package floor soak format bench gpu results clean

help:
	@echo "make demo    set up, then train, measure and write a page (a minute after the set-up)"
	@echo "make test    set up, then run every test"
	@echo "make check   set up, then format check, lint, types, the site and every test"
	@echo "make docs    set up, then build the documentation site in $(SITE), warnings as errors"
	@echo "make package set up, then build sdist and wheel, check and install them (3 minutes)"
	@echo "make floor   set up $(FLOOR_VENV), then test the library with the oldest versions (15 minutes)"
	@echo "make soak    set up, then kill a training 20 times and workers of 200 runs, and read"
	@echo "             some 3,000 hostile files (15 minutes)"
	@echo "make bench   set up, then run every benchmark and judge the project's goals (25 minutes)"
	@echo "make gpu     set up, then measure on a GPU: records for docs/gpu.md in $(GPU_OUT)"
	@echo "make results write the page, tables and figures of results/ from its records"
	@echo "make format  rewrite the code in the house's format"
	@echo "make peers   set up, then install other packages that tests and benchmarks use"
	@echo "make locked  set up with peers as CI does, every file compared with its hash (Linux, Python 3.11)"
	@echo "make setup   create $(VENV) and install everything; quick when nothing changed"
	@echo "make clean   remove $(VENV), $(FLOOR_VENV) and caches"

setup: $(INSTALLED)

# torch first and alone: what comes after it then finds the pinned one installed.
$(INSTALLED): pyproject.toml constraints.txt
	@test -x $(BIN)/python || { echo "Creating $(VENV) ..."; $(PYTHON) -m venv $(VENV); }
	@echo "Installing torch, about a minute the first time ..."
	@$(PIP) torch
	@echo "Installing scalednl and the tools that test it ..."
	@$(PIP) -e '.[lab,dev,export,sweep]'
	@touch $@

# What the attention packages import; each declares torch, which must stay the one that is here.
PEER_PARTS := axial-positional-embedding hyper-connections linformer local-attention \
	product-key-memory CoLT5-attention

# Without their own dependencies: these would replace torch by a CUDA build, or need a display.
peers: $(VENV)/.peers
$(VENV)/.peers: $(INSTALLED)
	@echo "Installing torchvision, timm, mmcv, Ultralytics and others to test with ..."
	@$(PIP) -e '.[peers]'
	@$(PIP) --no-deps torchvision timm mmcv-lite mmengine ultralytics
	@$(PIP) --no-deps linear-attention-transformer performer-pytorch nystrom-attention axial-attention
	@$(PIP) --no-deps $(PEER_PARTS)
	@touch $@

# What CI installs: the same versions, each file compared with its hash. torch is excepted, whose
# builds for CPUs and GPUs have one version and different hashes.
LOCKED := $(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --force-reinstall
locked: pyproject.toml constraints.txt requirements-ci.txt
	@test -x $(BIN)/python || { echo "Creating $(VENV) ..."; $(PYTHON) -m venv $(VENV); }
	@echo "Installing torch, then every package of requirements-ci.txt ..."
	@$(PIP) torch
	@$(LOCKED) --require-hashes -r requirements-ci.txt
	@$(LOCKED) --no-build-isolation -e .
	@touch $(INSTALLED) $(VENV)/.peers $(VENV)/.docs $(VENV)/.package

demo: setup
	@$(BIN)/scalednl demo

# One worker per core, one thread per worker; files stay together, for what their tests share.
WORKERS ?= auto
PYTEST := -m pytest -n $(WORKERS) --maxprocesses 8 --dist loadfile --no-loadscope-reorder
TEST := OMP_NUM_THREADS=1 $(BIN)/python $(PYTEST)

test: setup
	$(TEST)

check: setup
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(MAKE) --no-print-directory docs
	$(MAKE) --no-print-directory test

$(VENV)/.docs $(VENV)/.package: $(VENV)/.%: $(INSTALLED)
	@echo "Installing what '$*' needs ..."
	@$(PIP) -e '.[$*]'
	@touch $@

# Every page is read again, so that a warning is never hidden by an earlier build.
SITE := build/docs
docs: $(VENV)/.docs
	@$(BIN)/python -m sphinx -E -W --keep-going -q -b html docs $(SITE)
	@echo "$(SITE)/index.html"

package: $(VENV)/.package
	$(BIN)/python -m scripts.package

# The oldest versions that pyproject.toml allows; every other package as in constraints.txt.
FLOOR := torch==2.8.0 jaxtyping==0.2.36 safetensors==0.4.3
FLOOR_VENV := .venv-floor
FLOOR_TESTS := tests/ops tests/blocks tests/models tests/inspection tests/test_functional.py
FLOOR_TEST := OMP_NUM_THREADS=1 $(FLOOR_VENV)/bin/python $(PYTEST)

# What torch.compile and torch.export trace runs without shape checks: see tests/conftest.py.
floor: $(FLOOR_VENV)/.installed
	$(FLOOR_TEST) $(FLOOR_TESTS)
	SCALEDNL_SHAPE_CHECKS=0 $(FLOOR_TEST) tests/traced

$(FLOOR_VENV)/.installed: pyproject.toml constraints.txt Makefile
	@test -x $(FLOOR_VENV)/bin/python || $(PYTHON) -m venv $(FLOOR_VENV)
	@echo "Installing $(FLOOR), which may bring several gigabytes of CUDA packages ..."
	@grep -vE '^(torch|torchvision|jaxtyping|safetensors)==' constraints.txt > $(FLOOR_VENV)/constraints.txt
	@$(FLOOR_VENV)/bin/python -m pip install --quiet --disable-pip-version-check \
		-c $(FLOOR_VENV)/constraints.txt $(FLOOR) -e '.[lab,dev,export]'
	@touch $@

soak: setup
	SCALEDNL_KILLS=20 $(BIN)/python -m pytest tests/lab/training/test_processes.py
	SCALEDNL_ATTACKS=204 $(BIN)/python -m pytest tests/lab/training/test_attacks.py
	SCALEDNL_RAY_RUNS=200 $(BIN)/python -m pytest tests/lab/sweep/test_engine_ray.py
	SCALEDNL_HOSTILE=1 $(BIN)/python -m pytest tests/hostile

format: setup
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

# Each command is printed before it runs. BENCH passes options on: make bench BENCH=--quick
BENCH_OUT ?= build/bench
BENCH ?=
RUN_BENCH = $(BENCH) --out $(BENCH_OUT)

bench: setup
	$(BIN)/scalednl bench orders $(RUN_BENCH)
	$(BIN)/scalednl bench table3 $(RUN_BENCH)
	$(BIN)/scalednl bench scaling $(RUN_BENCH)
	$(BIN)/python -m benchmarks.inference $(RUN_BENCH)
	$(BIN)/python -m benchmarks.planner $(RUN_BENCH)
	$(BIN)/python -m benchmarks.training_loop $(RUN_BENCH)
	$(BIN)/python -m benchmarks.export $(RUN_BENCH)
	$(BIN)/python -m benchmarks.deployment $(RUN_BENCH)
	$(BIN)/python -m benchmarks.half_precision $(RUN_BENCH)
	$(BIN)/python -m benchmarks.peers $(RUN_BENCH)
	$(BIN)/python -m benchmarks.goals $(BENCH_OUT)

# What docs/gpu.md asks of people who have one. GPU picks it: make gpu GPU=cuda:1
GPU ?= cuda
GPU_OUT ?= build/gpu
RUN_GPU = --device $(GPU) --out $(GPU_OUT)

gpu: setup
	$(BIN)/scalednl bench orders $(RUN_GPU)
	$(BIN)/scalednl bench table3 $(RUN_GPU)
	$(BIN)/scalednl bench scaling $(RUN_GPU)
	$(BIN)/python -m benchmarks.planner $(RUN_GPU)
	$(BIN)/python -m benchmarks.half_precision $(RUN_GPU)

results: setup
	$(BIN)/python -m scripts.results

clean:
	rm -rf $(VENV) $(FLOOR_VENV) .pytest_cache .mypy_cache .ruff_cache .hypothesis build dist

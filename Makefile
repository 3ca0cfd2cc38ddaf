# Two commands: `make demo` runs the main job on real graphs, `make test` passes the tests.
# Either sets everything up first, in .venv; the second run starts at once. `make test-frameworks`
# has an environment of its own, .venv-frameworks: some gigabytes.

PYTHON ?= python3
VENV   ?= .venv
EXTRAS ?= test,lint
FRAMEWORKS ?= torch,onnx,tflite,executorch,jax,runtimes,dask
# `make test-frameworks TORCH=2.15.0` tests the plugin for torch.compile with another version.
TORCH  ?= 2.13.0
OUT    ?= out
GRAPHS ?= instances/inductor
# Tests that wait for other processes leave room for one more beside those that compute.
TESTERS ?= $(shell $(PYTHON) -c 'import os; print(len(os.sched_getaffinity(0)) + 1)' 2>/dev/null || echo auto)
METHODS ?= program,lpmf,bfs,dfs,inductor,xla_default,greedy_by_size

comma := ,
bin   := $(VENV)/bin
ready := $(VENV)/.ready-$(subst $(comma),-,$(EXTRAS))

# Tests start hundreds of processes, and importing without bytecode takes twice as long.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: help demo test test-frameworks frameworks nightly kernels lint docs setup clean

help:
	@echo "make demo    plan real graphs of instances/ and print how far each heuristic is from the bound"
	@echo "make test    lint, types, import contract and all tests"
	@echo "make test-frameworks  round trips through ONNX, TFLite, ExecuTorch, XLA and PyTorch themselves"
	@echo "make nightly three forms of every kernel on random graphs, and how time limits are kept; some minutes"
	@echo "make docs    build the pages of docs/ as a site in $(OUT)/site; any warning is an error"
	@echo "make clean   remove .venv, .venv-frameworks and $(OUT)"

demo: $(ready)
	@echo "== Planning $(words $(wildcard $(GRAPHS)/*.json.gz)) real graphs of $(GRAPHS)"
	@mkdir -p $(OUT)
	@$(bin)/optsched compare $(GRAPHS) --jobs 2 --methods $(METHODS) --top 5 --report $(OUT)/report.html

# Each process begins with half of the files, so that what a file's tests share is made once.
test: $(ready)
	@$(MAKE) --no-print-directory --jobs 2 lint kernels
	@echo "== Tests"
	@$(bin)/python -m pytest -n $(TESTERS) --dist worksteal --ignore tests/frameworks -m "not timed" $(PYTEST_ARGS)

frameworks:
	@$(MAKE) --no-print-directory setup VENV=$(VENV)-frameworks EXTRAS=test,$(FRAMEWORKS)

ifeq ($(TORCH),2.13.0)
# With them the test that replays the graphs of instances/: `make test` has no readers of model files.
test-frameworks: frameworks
	@echo "== Round trips through the frameworks themselves"
	@$(VENV)-frameworks/bin/python -m pytest -n auto tests/frameworks tests/check/test_replay.py $(PYTEST_ARGS)
else
test-frameworks:
	@$(MAKE) --no-print-directory setup VENV=$(VENV)-torch-$(TORCH) EXTRAS=test,torch
	@echo "== The plugin for torch.compile with torch $(TORCH)"
	@$(VENV)-torch-$(TORCH)/bin/python -m pytest -n auto tests/plugins tests/frameworks/inductor $(PYTEST_ARGS)
endif

nightly: $(ready)
	@echo "== Kernels: Python, compiled, and plain numba, state for state"
	@$(bin)/python -m tests.fuzz kernels --count 1000
	@echo "== Limits: every engine and option on 3,000 ops, by the processor's clock"
	@$(bin)/python -m pytest experiments/limits -m timed

# While style and types are checked. Tests that find no compiled kernel would run it in Python for as
# long as compiling takes, compile it then, and have the tests beside them wait.
kernels: $(ready)
	@$(bin)/optsched warmup

lint: $(ready)
	@echo "== Style, types, import contract"
	@$(bin)/ruff check .
	@$(bin)/ruff format --check .
	@$(bin)/mypy
	@$(bin)/lint-imports --no-logo

docs:
	@$(MAKE) --no-print-directory setup EXTRAS=docs
	@echo "== Building $(OUT)/site"
	@NO_MKDOCS_2_WARNING=1 $(bin)/python -m mkdocs build --strict --site-dir $(OUT)/site

setup: $(ready)

$(ready): pyproject.toml
	@echo "== Setting up $(VENV) with $(PYTHON) (once; a minute or two)"
	@$(PYTHON) -c 'import sys; sys.exit("Python 3.11 or later is needed, this is " + sys.version) if sys.version_info < (3, 11) else None'
	@test -x $(bin)/python || $(PYTHON) -m venv $(VENV)
	@echo 'torch==$(TORCH)' > $(VENV)/constraints.txt
	@$(bin)/python -m pip install --quiet --disable-pip-version-check --constraint $(VENV)/constraints.txt --editable '.[$(EXTRAS)]'
	@touch $@

clean:
	rm -rf $(VENV) $(VENV)-frameworks $(VENV)-torch-* $(OUT)

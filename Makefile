# Two commands matter: `make quickstart` and `make test`. `make help` lists the rest.
#
# On Linux without a GPU, set PIP_EXTRA_INDEX_URL to PyTorch's index of CPU builds: the default build brings CUDA along.

PYTHON      ?= python3
VENV        ?= .venv
CONSTRAINTS ?= constraints.txt
BASE        := sentence-transformers/all-MiniLM-L6-v2
RUN         := runs/quickstart
SPACE       := spaces/stance_and_oblique_search

BIN := $(VENV)/bin

# Two at a time, a file in one of them, and one thread each: threads of one test would only wait for those of another.
# Files in their own order: by default those of few tests come last, and the longest test of all would end alone.
PYTEST := OMP_NUM_THREADS=1 $(BIN)/python -m pytest -q -n 2 --dist loadfile --no-loadscope-reorder

# The project's own Hub cache, and nothing calls out: the package index is all that is needed.
export HF_HOME                     := $(CURDIR)/.cache/huggingface
export HF_HUB_OFFLINE              := 1
export HF_HUB_DISABLE_TELEMETRY    := 1
export HF_HUB_DISABLE_UPDATE_CHECK := 1
export GRADIO_ANALYTICS_ENABLED    := 0
export TOKENIZERS_PARALLELISM      := false

.DEFAULT_GOAL := help
.PHONY: help quickstart demo screenshots rehearse scale bench test test-all lint clean
.DELETE_ON_ERROR:

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## /{printf "  make %-12s %s\n", $$1, $$2}' $(firstword $(MAKEFILE_LIST))

quickstart: $(VENV)/.installed ## build the sample data, train an adapter, measure it against its base, search with it
	@echo "== 1/4 triplets"
	@$(BIN)/python -m dataset_builders build sample-stance-triplets --out data/sample-stance-triplets
	@echo "== 2/4 training"
	@$(BIN)/python train.py --recipe stance-minilm --out $(RUN)
	@echo "== 3/4 evaluation of base and adapter"
	@$(BIN)/python evaluate.py --model $(RUN) --tasks sample-stance --baseline $(BASE) --out $(RUN)/evaluation
	@echo "== 4/4 model card"
	@$(BIN)/python -m hub_models card $(RUN)

demo: export HF_HUB_OFFLINE := $(if $(SLANT_MODEL),0,1)
demo: $(VENV)/.installed ## open the Space on this machine, with the quickstart's adapter if it is there
	@$(BIN)/python $(SPACE)/app.py

screenshots: $(VENV)/.installed-dev ## draw the README's pictures of the Space, with Debian's chromium
	@$(BIN)/python docs/screenshots.py

rehearse: $(VENV)/.installed-dev ## release everything to a Hub on this machine and run every snippet as a stranger would
	@PYTHONPATH=. $(BIN)/python -m tests.hub.rehearsal

scale: $(VENV)/.installed-dev ## how time and memory grow from 10^3 to 10^6 documents, on one core; resumes
	@$(BIN)/python -m benchmarks.scale

bench: $(VENV)/.installed-dev ## speed and memory against what one would write instead; BENCH="graph bootstrap" runs some anew
	@$(BIN)/python -m benchmarks $(BENCH)

test: lint ## lint, types, import contracts and the default tests: at most 10 minutes on two cores
	$(PYTEST)

test-all: lint ## the same with the slow tests
	$(PYTEST) -m "slow or not slow"

lint: $(VENV)/.installed-dev ## ruff, mypy and import-linter
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

clean: ## remove the environment, builds and tool caches; data/, runs/ and the Hub cache stay
	rm -rf $(VENV) build dist *.egg-info .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

# Stamps: a second run installs nothing unless pyproject.toml or the constraints changed.
$(VENV)/.installed: pyproject.toml $(CONSTRAINTS) | $(VENV)/bin/python
	@echo "== installing into $(VENV): a few minutes, once"
	@$(BIN)/python -m pip install --disable-pip-version-check -c $(CONSTRAINTS) -e ".[sample-model]"
	@touch $@

$(VENV)/.installed-dev: pyproject.toml $(CONSTRAINTS) | $(VENV)/bin/python
	@echo "== installing into $(VENV) with the development tools: a few minutes, once"
	@$(BIN)/python -m pip install --disable-pip-version-check -c $(CONSTRAINTS) -e ".[dev]"
	@touch $@ $(VENV)/.installed

$(VENV)/bin/python:
	@$(PYTHON) -c 'import sys; v = sys.version_info[:2]; sys.exit(None if (3, 11) <= v < (3, 14) else "got Python %d.%d, wanted 3.11 to 3.13; try PYTHON=python3.12" % v)'
	@$(PYTHON) -m venv $(VENV)

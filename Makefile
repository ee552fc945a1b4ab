# Everything a maintainer runs; `make` alone lists it. Needs make and Python 3.11 with venv, nothing else.
#
# Demo, tests and checks all use the package as a user gets it: a wheel, built from an export of the tree (a build/
# folder left behind would ship modules that were deleted long ago) and installed in $(VENV). It is built anew only
# when a file changed; its dependencies are looked at again only when pyproject.toml changed.

VENV     ?= .venv
PEERS    ?= .venv-peers
PYTHON   ?= $(shell command -v python3.11 || echo python3)
ARGS     ?=

BIN      := $(VENV)/bin
PIP      := PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_ROOT_USER_ACTION=ignore $(BIN)/python -m pip --quiet
PACKAGES := facade recorder replay webui examples
# Folders are listed too: a deleted file changes nothing but the time of its folder.
TREE     := $(shell find $(PACKAGES) -name __pycache__ -prune -o -print) pyproject.toml README.md LICENSE
BUILD_REQUIRES = 'import tomllib; print(*tomllib.load(open("pyproject.toml", "rb"))["build-system"]["requires"])'

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
.PHONY: help demo test lint style types imports format bench bench-peers dist clean

help: ## list these targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "make %-12s%s\n", $$1, $$2 }' $(MAKEFILE_LIST)

demo: $(VENV)/.installed ## set everything up, then record a small agent that fails and find its mistake
	@$(BIN)/agentreplay demo

test: $(VENV)/.tools ## run the tests against the installed wheel; ARGS="tests/test_x.py -k law" narrows them
	$(BIN)/pytest -n 2 $(ARGS)

lint: style types imports ## all of the three checks below

style: $(VENV)/.tools ## ruff: mistakes, docstrings, format
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: $(VENV)/.tools ## mypy --strict on every module of the installed wheel
	$(BIN)/python .ci/typecheck.py

imports: $(VENV)/.tools ## the dependency rule, facade > webui > replay > recorder
	$(BIN)/lint-imports --no-logo

format: $(VENV)/.tools ## rewrite the tree as `make lint` wants it
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

bench: $(VENV)/.tools ## measure against floors, a few minutes; ARGS="G3 G6" narrows it
	$(BIN)/python -m bench $(ARGS)

bench-peers: ## measure beside other libraries, in an environment of its own
	@$(MAKE) --no-print-directory VENV=$(PEERS) $(PEERS)/.peers
	$(PEERS)/bin/python -m bench peers $(ARGS)

dist: $(VENV)/.tools ## build the two files of a release into dist/
	$(BIN)/python -m build --no-isolation --outdir dist $(VENV)/export

clean: ## remove what these targets made; recorded runs stay
	rm -rf $(VENV) $(PEERS) build dist *.egg-info .*_cache .hypothesis
	find . -name __pycache__ -prune -exec rm -rf {} +

$(VENV)/.python: pyproject.toml
	@echo "Setting up $(VENV) (the first time takes a minute or two) …"
	@$(PYTHON) -m venv $(VENV)
	@$(PIP) install $$($(BIN)/python -c $(BUILD_REQUIRES))
	@touch $@

$(VENV)/.installed: $(VENV)/.python $(TREE)
	@rm -rf $(VENV)/export $(VENV)/dist && mkdir $(VENV)/export
	@cp -R $(PACKAGES) pyproject.toml README.md LICENSE $(VENV)/export
	@find $(VENV)/export -name __pycache__ -prune -exec rm -rf {} +
	@$(PIP) wheel --no-deps --no-build-isolation --wheel-dir $(VENV)/dist $(VENV)/export
	@$(PIP) install --no-deps --force-reinstall $(VENV)/dist/*.whl
	@$(PIP) install $(VENV)/dist/*.whl
	@touch $@

$(VENV)/.tools: pyproject.toml | $(VENV)/.installed
	@$(PIP) install "$$(echo $(VENV)/dist/*.whl)[test,lint]"
	@touch $@

# One by one: a peer that cannot be installed is named here and in the table, and the others are measured.
$(VENV)/.peers: bench/peers.txt $(VENV)/.installed
	@for peer in $$(sed 's/#.*//' bench/peers.txt); do \
		$(PIP) install "$$peer" || echo "$$peer cannot be installed here, and will not be measured."; \
	done
	@touch $@

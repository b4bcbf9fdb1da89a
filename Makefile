# make demo    install weft into .venv and compare routing engines on a fabric; open the report
# make test    install what the tests need and run all of them
# make wheel   build a wheel that contains the compiled kernels
# Both start from a Debian 12 with python3, python3-venv and make.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
OUT ?= out
FABRIC ?= examples/cluster.ibnetdiscover
NAMES ?=
WORKERS ?= auto
CODE := src tests benchmarks examples docs/*.py docs/gallery scripts/*.py

export PIP_CONSTRAINT := $(CURDIR)/constraints.txt
export PIP_DISABLE_PIP_VERSION_CHECK := 1

.PHONY: demo test lint unit docs validate bench system wheel clean

$(BIN)/python:
	$(PYTHON) -m venv $(VENV)

$(VENV)/.installed: pyproject.toml constraints.txt | $(BIN)/python
	$(BIN)/python -m pip install --quiet --only-binary :all: --editable .
	touch $@

$(VENV)/.tested: pyproject.toml constraints.txt | $(BIN)/python
	$(BIN)/python -m pip install --quiet --only-binary :all: --editable '.[test,lint,docs]'
	touch $@ $(VENV)/.installed

demo: $(VENV)/.installed
	@mkdir -p $(OUT) && rm -f $(OUT)/report.html
	$(BIN)/weft compare '$(FABRIC)' $(if $(NAMES),--names '$(NAMES)') --report $(OUT)/report.html
	@echo "Open $(abspath $(OUT)/report.html) in a browser."

# The linters and the site run beside the tests, which often wait for processes.
test: system $(VENV)/.tested
	$(MAKE) --jobs=2 lint unit docs

# Packages of the real counterparts that tests run; needs root on Debian.
system:
	@sh scripts/system-packages

lint: $(VENV)/.tested
	$(BIN)/ruff check $(CODE)
	$(BIN)/ruff format --check $(CODE)
	$(BIN)/mypy
	$(BIN)/lint-imports

# Kernels are compiled once, before parallel processes all do it.
unit: $(VENV)/.tested
	$(BIN)/weft warmup
	$(BIN)/python -m pytest -n $(WORKERS) -m 'not slow'

# The site, without network: open docs/_build/html/index.html.
docs: $(VENV)/.tested
	$(BIN)/sphinx-build -q -W --keep-going -b html docs docs/_build/html

validate: $(VENV)/.tested
	$(BIN)/python -m pytest -m 'slow or hypothesis' --hypothesis-profile=validate

bench: $(VENV)/.tested
	$(BIN)/python -m benchmarks

# A wheel for this version of Python with compiled kernels, in dist/.
wheel: $(VENV)/.tested
	$(BIN)/python -m pip install --quiet --only-binary :all: wheel
	$(BIN)/python scripts/build_wheel.py dist

clean:
	rm -rf $(VENV) $(OUT) docs/_build docs/auto_gallery docs/reference

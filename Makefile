# make demo    install weft into .venv and compare routing engines on a fabric; open the report
# make test    install what the tests need and run all of them
# Both start from a Debian 12 with python3, python3-venv and make.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
OUT ?= out
FABRIC ?= examples/cluster.ibnetdiscover
NAMES ?=
WORKERS ?= auto
CODE := src tests benchmarks examples docs/conf.py docs/reference.py docs/gallery

export PIP_CONSTRAINT := $(CURDIR)/constraints.txt
export PIP_DISABLE_PIP_VERSION_CHECK := 1

.PHONY: demo test lint unit validate bench system clean

$(BIN)/python:
	$(PYTHON) -m venv $(VENV)

$(VENV)/.installed: pyproject.toml constraints.txt | $(BIN)/python
	$(BIN)/python -m pip install --quiet --only-binary :all: --editable .
	touch $@

$(VENV)/.tested: pyproject.toml constraints.txt | $(BIN)/python
	$(BIN)/python -m pip install --quiet --only-binary :all: --editable '.[test,lint]'
	touch $@ $(VENV)/.installed

demo: $(VENV)/.installed
	@mkdir -p $(OUT) && rm -f $(OUT)/report.html
	$(BIN)/weft compare '$(FABRIC)' $(if $(NAMES),--names '$(NAMES)') --report $(OUT)/report.html
	@echo "Open $(abspath $(OUT)/report.html) in a browser."

test: system $(VENV)/.tested lint unit

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

validate: $(VENV)/.tested
	$(BIN)/python -m pytest -m slow

bench: $(VENV)/.tested
	$(BIN)/python -m benchmarks

clean:
	rm -rf $(VENV) $(OUT)

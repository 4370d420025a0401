# make demo   profiles a real training job and shows what it found
# make test   style, types, imports, tests
# make verdicts   the jobs that make test leaves out: fixed samples, labelled jobs beside the clone
# Both make their own environment in .venv; nothing else is needed but Python 3.11+, git and make.

PYTHON ?= python3
BIN := .venv/bin

.PHONY: demo test verdicts lint types clean
.DELETE_ON_ERROR:

demo: .venv/samples
	@echo "A training job of about 20 seconds, started by: accelprof run python samples/images_decode.py"
	$(BIN)/accelprof run --name demo $(BIN)/python samples/images_decode.py
	@mkdir -p build
	@$(BIN)/accelprof report demo -o build/demo-report.md
	@echo "Report: $(CURDIR)/build/demo-report.md"

# Tests of verdicts time real jobs: they run alone, after all the others. What fails beside other
# tests is tried once more alone, for it may have waited for a core; what fails then has failed.
AGAIN := --last-failed --last-failed-no-failures none

test: lint types
	$(BIN)/python -m pytest -n auto --maxprocesses 4 --dist loadfile --durations 30 --ignore tests/e2e \
	  || $(BIN)/python -m pytest $(AGAIN) --ignore tests/e2e
	$(BIN)/python -m pytest tests/e2e || $(BIN)/python -m pytest $(AGAIN) tests/e2e

verdicts: .venv/dev
	$(BIN)/python -m pytest -m slow tests/e2e tests/tuning

lint: .venv/dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/lint-imports

types: .venv/dev .typing/accelprof
	cd .typing && ../$(BIN)/mypy -p accelprof

# The repository's root is the package: mypy needs a folder in which it is called accelprof.
.typing/accelprof:
	@mkdir -p .typing
	@ln -sfn .. $@

.venv/samples .venv/dev: pyproject.toml | .venv/bin/python
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[$(@F)]'
	@touch $@

.venv/bin/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { \
	  echo 'accelprof needs Python 3.11 or newer, and "$(PYTHON)" is not: make PYTHON=/path/to/python3.11 $(MAKECMDGOALS)' >&2; \
	  exit 1; }
	$(PYTHON) -m venv .venv

clean:
	rm -rf .venv .typing build

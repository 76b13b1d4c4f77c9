# Two commands: `make lab` opens the course, `make test` checks everything.
# PYTHON is the interpreter that .venv is made with: 3.11, 3.12 or 3.13.

PYTHON ?= python3
VENV_PYTHON := .venv/bin/python

# Two, as the course takes two cores; each needs up to 3 GiB of memory.
WORKERS := 2

# Packages are compiled when first imported; let Python keep the result.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: lab test browser bench rerun site

lab:
	@$(PYTHON) -m labkit.bootstrap
	@$(VENV_PYTHON) -m labkit lab

test:
	@$(PYTHON) -m labkit.bootstrap --group test
	$(VENV_PYTHON) -m ruff check
	$(VENV_PYTHON) -m ruff format --check
	$(VENV_PYTHON) -m mypy
	$(VENV_PYTHON) -m pytest --numprocesses $(WORKERS)

# Every lesson opened and run in JupyterLab; `make test` runs three of them.
browser:
	@$(PYTHON) -m labkit.bootstrap --group test
	$(VENV_PYTHON) -m pytest tests/browser --every-lesson \
		--numprocesses $(WORKERS)

# Measurements that prove a claim on this machine; none is a test.
bench:
	@$(PYTHON) -m labkit.bootstrap --group peers
	@$(VENV_PYTHON) -m labkit fetch
	$(VENV_PYTHON) bench/noise.py
	$(VENV_PYTHON) bench/decode.py
	$(VENV_PYTHON) bench/loadgen.py
	$(VENV_PYTHON) bench/loadgen_tools.py
	$(VENV_PYTHON) bench/sweep.py
	$(VENV_PYTHON) bench/queueing.py

# Execute a lesson in place, for committing: make rerun LESSON=01
rerun:
	@$(if $(LESSON),,$(error say which lesson: make rerun LESSON=01))
	@$(PYTHON) -m labkit.bootstrap
	@$(VENV_PYTHON) -m labkit fetch
	@$(VENV_PYTHON) -m labkit rerun $(LESSON)

# The course as a site in _site, from the committed notebooks.
site:
	@$(PYTHON) -m labkit.bootstrap --group site
	$(VENV_PYTHON) -m sphinx --fail-on-warning --keep-going -q \
		-c site . _site

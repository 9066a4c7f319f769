# Every target does its own set-up: it needs Python 3.11 or newer, make, and the package registries.
# LIGHT=1 leaves Spark out: a smaller environment in .venv-light, and the tests that need no Spark.
# ARGS goes to pytest: make test ARGS='-k produce'.
PYTHON ?= python3
LIGHT ?=
VENV ?= $(if $(LIGHT),.venv-light,.venv)
REQUIREMENTS := $(if $(LIGHT),requirements-light.lock,requirements.lock)
ARGS ?=
# A command of this name may exist and not work: pyenv installs one for each version that any directory uses.
PYTHON313 = $(firstword $(foreach each,python3.13 $(wildcard $(HOME)/.pyenv/versions/3.13.*/bin/python3.13), \
  $(if $(shell $(each) -c 'print(1)' 2> /dev/null),$(each))))
BIN := $(VENV)/bin
PORT ?= 9092
DATA ?= data

.DEFAULT_GOAL := help
.PHONY: help install up demo test test-python313 kafka-jars lint format generate lock bench bench-spark chaos \
  chaos-spark compat compat-kafka fuzz clean

help:  ## show the targets
	@grep -E '^[a-z0-9-]+:.*##' $(MAKEFILE_LIST) | awk -F ':.*## ' '{printf "  make %-14s %s\n", $$1, $$2}'

install: $(VENV)/.installed  ## create .venv with everything that the demo and the tests need; LIGHT=1 without Spark

$(VENV)/.installed: pyproject.toml $(REQUIREMENTS)
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' \
	  || { echo "Barnabas needs Python 3.11 or newer; try: make PYTHON=python3.12 $(MAKECMDGOALS)"; exit 1; }
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes -r $(REQUIREMENTS)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation --editable .
	$(BIN)/python -m compileall -q src
	@touch $@

up: install  ## start a broker on PORT (9092) with its files in DATA (data)
	$(BIN)/barnabas up --data $(DATA) --port $(PORT)

demo: install  ## write, read, restart and kill brokers; then a food-delivery business on three of them, with Spark
	$(BIN)/python examples/demo.py
	$(BIN)/python examples/food_delivery/run.py

test: install kafka-jars  ## all tests; ARGS='-k name' for some, LIGHT=1 without Spark
	$(BIN)/python -m pytest -n 2 --dist worksteal $(ARGS)

test-python313:  ## the tests without Spark on Python 3.13, where it is installed
	$(if $(PYTHON313),$(MAKE) test LIGHT=1 PYTHON=$(PYTHON313) VENV=.venv-3.13,@echo "not run: Python 3.13 is not installed")

kafka-jars: install  ## fetch Apache Kafka's jars, with which many tests compare, where Java and Maven are installed
	@$(BIN)/python tests/support/kafka_jars.py
	@$(BIN)/python compat/apache-kafka/run --fetch

lint: install  ## style, types, generated code
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

format: install
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

generate: install  ## write the message classes and the reference pages again
	$(BIN)/python -m tools.protocol_generator
	$(BIN)/python -m tools.configuration_reference
	$(BIN)/python -m tools.cli_reference
	$(BIN)/python -m tools.api_reference
	$(BIN)/python -m tools.client_reference

lock:  ## resolve the dependencies anew
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check uv
	$(BIN)/uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --all-extras \
	  --no-header --no-annotate --no-emit-index-url pyproject.toml tools/build-requirements.in -o requirements.lock
	$(BIN)/uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --constraint requirements.lock \
	  --extra cli --extra demo --extra lint --extra test \
	  --no-header --no-annotate --no-emit-index-url pyproject.toml tools/build-requirements.in -o requirements-light.lock

bench: install  ## measure Barnabas, beside Apache Kafka where Java and Maven are
	$(BIN)/python benchmarks/run.py

bench-spark: install  ## measure the Spark data source, beside Spark's own Kafka connector where Maven is
	$(BIN)/python benchmarks/spark.py

chaos: install  ## break three brokers in every way, with real clients, and write tests/chaos.md
	$(BIN)/python tests/chaos/run.py

chaos-spark: install  ## kill Spark's driver at every point of a commit, and brokers beside it
	BARNABAS_CHAOS_SPARK=1 $(BIN)/python -m pytest -n 0 tests/spark/test_driver_killed.py

compat: install  ## run the suites of other projects against Barnabas
	compat/run

compat-kafka: install  ## run Apache Kafka's own JUnit tests against Barnabas (about two hours)
	$(BIN)/python compat/apache-kafka/run --jobs 2 $(ARGS)

fuzz: install  ## feed garbage for a while
	$(BIN)/python fuzz/batches.py --seconds 60
	$(BIN)/python fuzz/messages.py --seconds 60

clean:
	rm -rf .venv .venv-* .mypy_cache .ruff_cache .pytest_cache .hypothesis

# Everything a person does with the project. `make fuzz` and `make test` need Python 3.11 or newer,
# g++ and nothing else; they make the environment they use.

PYTHON ?= python3
SECONDS := 60
SEED :=
ROUNDS := 1
TARGET := auto
VENV := .venv
BIN := $(VENV)/bin
INSTALLED := $(VENV)/.installed
COMPARED := $(VENV)/.compared
PACKAGES := harness kernels reference reports strategies

.PHONY: fuzz test test-nightly faults venv lint bench mutants sanitize-gpu clean

fuzz: venv
	$(BIN)/kv-canary-fuzz run --target $(TARGET) --seconds $(SECONDS) $(if $(SEED),--seed $(SEED))

test: venv $(COMPARED)
	$(BIN)/pytest -n auto --dist worksteal -m "not nightly"

# Every documented command and every step of the workflows, one after another.
test-nightly: venv $(COMPARED)
	$(BIN)/pytest -m nightly

# Targets that crash, hang and write astray, and processes killed at other instants every round.
faults: venv
	for round in $$(seq $(ROUNDS)); do \
		KV_FAULT_SEED=$$round $(BIN)/pytest -q -n 4 tests/faults || exit 1; \
	done

venv: $(INSTALLED)

$(INSTALLED): pyproject.toml constraints.txt
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --upgrade pip
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --editable '.[lint,test]'
	touch $@

# sglang's own torch reference is one more implementation in the tests. Where its wheel does not
# install, those tests are skipped and say so.
$(COMPARED): $(INSTALLED)
	-$(BIN)/python -m pip install --quiet --no-deps sglang==0.5.23
	touch $@

# mypy reads the packages through links, since their import names are not their folder names.
lint: venv
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	mkdir -p build/lint/kv_canary_fuzz
	$(foreach p,$(PACKAGES),ln -sfn ../../../$(p) build/lint/kv_canary_fuzz/$(p);)
	cd build/lint && ../../$(BIN)/mypy --config-file ../../pyproject.toml \
		--namespace-packages --explicit-package-bases kv_canary_fuzz
	$(BIN)/lint-imports --no-logo
	$(BIN)/check-jsonschema --builtin-schema vendor.github-workflows .github/workflows/*.yml

bench: venv
	$(BIN)/kv-canary-fuzz bench

mutants: venv
	$(BIN)/kv-canary-fuzz mutants

# The CUDA kernels on a GPU under compute-sanitizer, in about a minute.
sanitize-gpu: venv
	$(BIN)/kv-canary-fuzz sanitize-gpu

clean:
	rm -rf $(VENV) build .pytest_cache .mypy_cache .ruff_cache

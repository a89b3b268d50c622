# Every target makes its own environment from pinned requirements; nothing needs to be installed by hand.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready
TENSORFLOW := .venv-tensorflow
TENSORFLOW_READY := $(TENSORFLOW)/.ready
ECOSYSTEM := .venv-ecosystem
ECOSYSTEM_READY := $(ECOSYSTEM)/.ready
CASES ?= 240
CELLS ?= 1000

# One thread a process, which waits without spinning where a test asks for more: the cores are busy with other tests.
# Bytecode is kept whatever the environment says: every worker, and every process that a test starts, reads it.
TESTING := env -u PYTHONDONTWRITEBYTECODE OMP_NUM_THREADS=1 OMP_WAIT_POLICY=PASSIVE
PYTEST := $(TESTING) $(BIN)/python -m pytest -n auto --dist loadfile --durations=10

.PHONY: demo test tests check bench conformance ecosystem soak gpu-test gpu-bench clean

demo: $(READY)
	$(BIN)/python examples/character_model.py

test: $(READY)
	@began=$$(date +%s); $(MAKE) --no-print-directory --jobs=2 check tests; \
	status=$$?; echo "make test took $$(($$(date +%s) - began)) s"; exit $$status

tests: $(READY)
	$(PYTEST)

check: $(READY)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/basedpyright

bench: $(READY)
	$(BIN)/python -m benchmarks --out build/benchmarks

# Stage by stage, each in a process of its own: what hangs or writes where it must not takes nothing else with it.
gpu-test: $(READY)
	$(TESTING) $(BIN)/python -m tests.gpu

# ONLY="loop calls-fp16" for some of the parts; python -m benchmarks.cuda --help says more.
gpu-bench: $(READY)
	$(BIN)/python -m benchmarks.cuda --json build/benchmarks $(if $(ONLY),--only $(ONLY))

soak: $(READY)
	UNSPOOL_TESTS=soak $(PYTEST) -m "drawn or hypothesis"
	$(TESTING) $(BIN)/python -m tests.soak --cells $(CELLS) --out build/soak

conformance: $(READY) $(TENSORFLOW_READY)
	$(TENSORFLOW)/bin/python conformance/draw.py --cases $(CASES) --out build/conformance
	$(BIN)/python conformance/compare.py build/conformance
	$(TENSORFLOW)/bin/python conformance/tf1_draw.py --out build/conformance/tf1
	$(BIN)/python conformance/tf1_compare.py build/conformance/tf1
	$(TENSORFLOW)/bin/python conformance/tf1_draw_ops.py --out build/conformance/tf1_ops
	$(BIN)/python conformance/tf1_compare_ops.py build/conformance/tf1_ops
	$(TENSORFLOW)/bin/python conformance/tf1_inputs.py --drawn $(CASES) --seed $(shell date +%s) --out build/conformance/tf1_inputs.json
	$(BIN)/python conformance/tf1_compare_inputs.py build/conformance/tf1_inputs.json
	$(TENSORFLOW)/bin/python conformance/tf1_scripts.py --out build/conformance/tf1_scripts
	$(BIN)/python conformance/tf1_compare_scripts.py build/conformance/tf1_scripts
	$(TENSORFLOW)/bin/python conformance/checkpoints.py --out build/conformance/checkpoints
	$(BIN)/python conformance/compare_checkpoints.py build/conformance/checkpoints --out build/conformance/written
	$(TENSORFLOW)/bin/python conformance/checkpoints.py --restore build/conformance/written

ecosystem: $(ECOSYSTEM_READY)
	$(TESTING) $(ECOSYSTEM)/bin/python -m pytest tests/ecosystem

$(READY): requirements.txt pyproject.toml
	$(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --quiet --disable-pip-version-check -r requirements.txt
	$(BIN)/pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation -e .
	touch $@

$(TENSORFLOW_READY): conformance/requirements.txt
	$(PYTHON) -m venv $(TENSORFLOW)
	$(TENSORFLOW)/bin/pip install --quiet --disable-pip-version-check -r conformance/requirements.txt
	touch $@

$(ECOSYSTEM_READY): tests/ecosystem/requirements.txt requirements.txt
	$(PYTHON) -m venv $(ECOSYSTEM)
	$(ECOSYSTEM)/bin/pip install --quiet --disable-pip-version-check -r tests/ecosystem/requirements.txt
	touch $@

clean:
	rm -rf $(VENV) $(TENSORFLOW) $(ECOSYSTEM) build demo-output

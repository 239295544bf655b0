# Each target does all the set-up it needs. Choose another Python with: make PYTHON=python3.12 ...
PYTHON ?= python3
# What pip installs for torch. PyTorch's own CPU build, where pip would bring GPU libraries:
#   make TORCH="torch==2.13.0 --index-url https://download.pytorch.org/whl/cpu" demo
TORCH ?= torch==2.13.0
PIP = .venv/bin/python -m pip --disable-pip-version-check
DEMO = demo

.PHONY: demo test test-system test-long test-all test-burning fuzz torture check lint types format contracts docs site package sbom bench picture clean

demo: .venv/.runs
	@rm -rf $(DEMO)
	@.venv/bin/wattstep demo --out $(DEMO)/jetson
	@echo "training three workloads of three domains, 15 s each"
	@.venv/bin/wattstep run squeezenet char-cnn dqn --seconds 15 --power-model vcpu --out $(DEMO)/runs
	@.venv/bin/wattstep report $(DEMO)/runs -o $(DEMO)/report.html
	@echo "open it in a browser: it needs no network"

# Which tests are of which target stands in tests/tiers.py, as does the list of those that may be run
# again. `test`: within the process, and one of each real component. `test-system`: ssh, adb, agents,
# faults, Dask, browser, children of the command line; files side by side, two at a time, since they
# watch clocks, memory, and what other processes do meanwhile.
#
# `test-long`: what takes minutes each, and repeats on further networks or commands what the others have of it.
# `.ci/run`, which must end within 90 minutes on a slow machine too, leaves it out.
#
# Frameworks bring allocators and compilers that stay in a process and show in what others measure there:
# tests/engines has processes of its own.
#
# Compiled modules are kept whatever the environment says: tests start some hundred interpreters, and
# each would compile again what it imports.
export PYTHONDONTWRITEBYTECODE =
PYTEST = .venv/bin/python -m pytest
test: .venv/.tests
	$(PYTEST) --tier test -n logical --maxprocesses 4 --dist worksteal

test-system: .venv/.tests
	$(PYTEST) --tier system -n 2 --dist loadfile --ignore tests/engines
	$(PYTEST) --tier system -n 2 --dist loadfile tests/engines

test-long: .venv/.tests
	$(PYTEST) --tier long -n 2 --dist worksteal

test-all: .venv/.tests
	$(PYTEST) --hypothesis-profile=long

# Three times in a row, beside four processes that burn the processor; choose others with
#   make test-burning BURNING="tests/faults"
BURNING = tests/run tests/tracing tests/sampling tests/conditions
test-burning: .venv/.tests
	.ci/burning $(PYTEST) $(BURNING)

# Kills at random moments, disks full at random bytes and files cut at random, for so many minutes; a table
# says what became of each, and docs/torture.md what may. Another seed: make torture SEED=2
MINUTES = 30
SEED = 1
LANES = 4
torture: .venv/.tests
	.venv/bin/python -m tests.torture --minutes $(MINUTES) --seed $(SEED) --lanes $(LANES)

# Every parser against 100,000 inputs: recordings damaged at random, about half an hour; folders of runs
# likewise, two and a half hours of processor time (with --output DIR in several sittings, a process for each
# --seed); then those that Hypothesis makes, hours.
fuzz: .venv/.tests
	.venv/bin/python -m tests.mutations --count 100000
	.venv/bin/python -m tests.mutations --folders 100000
	.venv/bin/python -m pytest --hypothesis-profile=long tests/formats tests/boards \
	  tests/sampling/test_parsers.py tests/sensors/test_android.py tests/sensors/test_machine.py \
	  tests/importing tests/fleet/remote/test_archive.py tests/agent/test_looking.py tests/agent/test_hostile.py

# Before a commit; .ci/run adds test-system.
check: lint contracts types test

lint: .venv/.tests
	.venv/bin/ruff format --check src tests benchmarks docs examples
	.venv/bin/ruff check src tests benchmarks docs examples

# Benchmarks as well, since hours go by before one shows that a name has moved; not strictly.
types: .venv/.tests
	.venv/bin/mypy
	.venv/bin/mypy --no-warn-unused-ignores --no-warn-return-any --allow-untyped-calls benchmarks \
	  --disable-error-code var-annotated --disable-error-code method-assign \
	  --disable-error-code union-attr --disable-error-code operator \
	  --disable-error-code assignment --disable-error-code return-value

format: .venv/.tests
	.venv/bin/ruff check --fix src tests benchmarks docs examples
	.venv/bin/ruff format src tests benchmarks docs examples

contracts: .venv/.tests
	.venv/bin/lint-imports

docs: .venv/.tests
	.venv/bin/python -m pytest tests/docs

# The documents as a site, in site/: a link that leads nowhere, or a page that no one can reach, ends it.
site: .venv/.tests
	.venv/bin/mkdocs build --strict --quiet --clean --site-dir site

# Wheel and sdist, checked as a package index would; the wheel, which is made from the sdist, then runs
# from an environment that has nothing but what it asks for.
BARE = build/bare
package: .venv/.tests
	rm -rf dist build
	.venv/bin/python -m build --outdir dist .
	.venv/bin/twine check --strict dist/*
	.venv/bin/python -m venv $(BARE)
	$(BARE)/bin/python -m pip --disable-pip-version-check install -q -c constraints.txt dist/*.whl
	cd $(BARE) && bin/wattstep --version && bin/wattstep demo --quiet --out demo

# A bill of materials of what the default brings (CycloneDX), in dist/sbom.json.
sbom: .venv/.tests
	mkdir -p dist
	.venv/bin/python docs/dependencies.py sbom dist/sbom.json

# Hours; each line can be run by itself.
bench: .venv/.tests
	.venv/bin/python benchmarks/sampler.py
	.venv/bin/python benchmarks/marks.py
	.venv/bin/python benchmarks/recording.py
	.venv/bin/python benchmarks/recording.py --parts both --threads 2
	.venv/bin/python benchmarks/recording.py --parts both --interval 1ms
	.venv/bin/python benchmarks/tracing.py
	.venv/bin/python benchmarks/phases.py
	.venv/bin/python benchmarks/callbacks.py
	.venv/bin/python benchmarks/memory.py
	.venv/bin/python benchmarks/worker_memory.py
	.venv/bin/python benchmarks/process_energy.py
	.venv/bin/python benchmarks/correlation.py
	.venv/bin/python benchmarks/start.py
	.venv/bin/python benchmarks/jetson_tick.py
	.venv/bin/python benchmarks/alignment.py
	.venv/bin/python benchmarks/agent_marks.py
	.venv/bin/python benchmarks/kineto_import.py --ways parse import
	.venv/bin/python benchmarks/gpu_breakdown.py
	.venv/bin/python benchmarks/ssh.py
	.venv/bin/python benchmarks/attribution_real.py --part load
	.venv/bin/python benchmarks/attribution_real.py --part alone
	.venv/bin/python benchmarks/predictability.py
	.venv/bin/python benchmarks/forecast.py
	.venv/bin/python benchmarks/ahead.py
	.venv/bin/python benchmarks/live.py
	.venv/bin/python benchmarks/variance.py speed
	.venv/bin/python benchmarks/observations.py
	.venv/bin/python benchmarks/compare.py
	.venv/bin/python benchmarks/report.py
	.venv/bin/python benchmarks/compare_truth.py synthetic
	.venv/bin/python benchmarks/canary.py
	.venv/bin/python benchmarks/advice.py
	.venv/bin/python benchmarks/serving.py
	.venv/bin/python benchmarks/query.py
	.venv/bin/python benchmarks/few.py 40
	.venv/bin/python benchmarks/two_networks.py
	.venv/bin/python benchmarks/regression.py --seeds 5
	.venv/bin/python benchmarks/truth.py
	.venv/bin/python benchmarks/export.py
	.venv/bin/python benchmarks/long_recording.py

# The pictures in the documents: of the demo's report (needs Debian's chromium; a test compares what it
# shows with today's page), and of a run that goes on.
picture: .venv/.tests
	.venv/bin/python docs/live_picture.py docs/live.svg
	rm -rf build/picture
	.venv/bin/wattstep demo --quiet --out build/picture
	.venv/bin/python docs/picture.py build/picture/report.html docs/report.png

clean:
	rm -rf .venv $(DEMO)

.venv/.python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 10))' || \
	  { echo "wattstep needs Python 3.10 or later: make PYTHON=python3.12 $(MAKECMDGOALS)"; exit 2; }
	@$(PYTHON) -c 'import venv, ensurepip' 2>/dev/null || \
	  { echo "this Python has no venv: install the package python3-venv (sudo apt install python3-venv)"; exit 2; }
	$(PYTHON) -m venv .venv
	@touch $@

.venv/.runs: .venv/.python pyproject.toml constraints.txt
	$(PIP) install -c constraints.txt $(TORCH)
	$(PIP) install -c constraints.txt -e '.[suite,traces,serve,query]'
	@touch $@

.venv/.tests: .venv/.runs
	$(PIP) install -c constraints.txt -e '.[suite,traces,serve,query,cluster,integrations,mnn,onnxruntime,executorch,mlx,onnx,opencl,labeling,dev]'
	$(PIP) install -c constraints.txt --no-deps executorch
	@touch $@

# Every target sets up .venv by itself, from pinned versions. `make demo` and `make test` are the two to know.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
# What is installed, by how much a target needs: the demo, the tests (with everything that the library can use), lint.
DEMO := $(VENV)/.demo
READY := $(VENV)/.test
LINT := $(VENV)/.lint
# Importing an editable install rebuilds changed kernels, with the cmake of the environment.
export PATH := $(CURDIR)/$(BIN):$(PATH)
export NO_MKDOCS_2_WARNING := 1
# Programs that are started again and again would otherwise compile all of it every time.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: demo serve pictures test test-all test-deep test-cluster faults lint format sanitize bench docs constraints clean

demo: $(DEMO)
	tastespace demo

# A service on the embedded data, fitted first if it is not there yet.
SERVED := build/served
FIT_SERVED := tastespace fit movielens-demo --out $(SERVED) --holdout 0.1 --refit --set noise=per-user-and-item
serve: $(READY)
	test -f $(SERVED)/manifest.json || $(FIT_SERVED)
	tastespace serve $(SERVED)

# The pictures of the page in docs/images, by the browser that the tests use.
PICTURES_PORT := 8765
pictures: $(READY)
	test -f $(SERVED)/manifest.json || $(FIT_SERVED)
	tastespace serve $(SERVED) --port $(PICTURES_PORT) --log-level warning & serving=$$!; \
	  until python -c 'import urllib.request as u; u.urlopen("http://127.0.0.1:$(PICTURES_PORT)/v1/ready")' 2>/dev/null; \
	  do kill -0 $$serving || exit 1; sleep 1; done; \
	  python tests/browser/pictures.py http://127.0.0.1:$(PICTURES_PORT)/ docs/images; taken=$$?; \
	  kill $$serving; exit $$taken

test: $(READY)
	python -m pytest -n 2 --dist worksteal -m "not slow"

test-all: $(READY)
	python -m pytest -n 2

# What needs PyTorch, which is too large for everybody who runs the tests.
test-deep: $(READY)
	$(INSTALL) --no-build-isolation -e '.[all,deep]'
	python -m pytest -n 2 --dist worksteal -m deep

# What needs Ray: nodes on this machine, as processes of their own.
test-cluster: $(READY)
	$(INSTALL) --no-build-isolation -e '.[all,cluster]'
	python -m pytest -n 1 -m cluster tests/cluster

# Everything that can go wrong, at full length: kills, power failures, full disks, flipped bits, odd files and requests.
# The mixed load takes two minutes on each of two databases; make faults MINUTES=15 lets it go on for half an hour.
MINUTES := 2
faults: $(READY)
	TASTESPACE_KILLS=25 TASTESPACE_FLIPS=500 TASTESPACE_MUTANTS=10000 TASTESPACE_MINUTES=$(MINUTES) python -m pytest -n 2 tests/faults tests/artifacts/test_proof.py \
	  tests/service/test_faults.py tests/service/test_live_model.py

lint: $(READY) $(LINT)
	ruff check .
	ruff format --check .
	mypy
	lint-imports
	clang-format --dry-run -Werror native/*.cpp native/*.hpp
	codespell src native docs tests examples benchmarks changes *.md
	git diff --exit-code -- src/tastespace/_native.pyi

format: $(LINT)
	ruff check --fix .
	ruff format .
	clang-format -i native/*.cpp native/*.hpp

# The kernel tests under the address and undefined-behaviour sanitizers, less those that draw for long to prove a law;
# the plain loops and this machine's best side by side. Without -S the editable install would win over the instrumented
# build.
SANITIZED := build/sanitized
SANITIZED_PYTHON := \
	LD_PRELOAD="$$($${CXX:-g++} -print-file-name=libasan.so) $$($${CXX:-g++} -print-file-name=libstdc++.so)" \
	ASAN_OPTIONS=detect_leaks=0 UBSAN_OPTIONS=print_stacktrace=1:halt_on_error=1 PYTHONMALLOC=malloc \
	PYTHONPATH="$(SANITIZED)/package:$$(python -c 'import site; print(site.getsitepackages()[0])')" python -S
TESTS := tests/native
KERNEL_TESTS := -m pytest -q -s -p no:cacheprovider -m "not statistical" $(TESTS) \
	--deselect tests/native/test_instruction_sets.py
sanitize: $(READY)
	python -m pip install -q --no-build-isolation --no-deps --upgrade --target $(SANITIZED)/package . \
	  -C build-dir=$(SANITIZED)/build -C cmake.define.TASTESPACE_SANITIZE=ON -C cmake.build-type=RelWithDebInfo
	$(SANITIZED_PYTHON) -c 'import tastespace._native as native; assert "$(SANITIZED)" in native.__file__, native.__file__'
	TASTESPACE_ISA=base $(SANITIZED_PYTHON) $(KERNEL_TESTS) & base=$$!; \
	TASTESPACE_ISA= $(SANITIZED_PYTHON) $(KERNEL_TESTS); best=$$?; wait $$base && exit $$best

# Against other libraries, which live in an environment of their own.
BENCH := .venv-bench
bench:
	test -x $(BENCH)/bin/python || $(PYTHON) -m venv $(BENCH)
	$(BENCH)/bin/python -m pip install -q -r benchmarks/peers.txt
	$(BENCH)/bin/python -m pip install -q .
	for name in als pmf pmf_variants bpmf features vb starts likelihoods sphere rank deep update lists one_class similar replay bpmf_answers bpmf_ladder bpmf_netflix scaling all_lists ingest shapes evaluate; do \
	  $(BENCH)/bin/python benchmarks/$$name.py || exit 1; done

docs: $(READY)
	mkdocs build --strict

constraints:
	$(PYTHON) -m venv build/constraints
	build/constraints/bin/pip install -q -U pip scikit-build-core nanobind cmake ninja
	build/constraints/bin/pip install -q --no-build-isolation '.[all]' --group test --group lint
	(echo "# Pinned versions of everything that make installs; refresh with: make constraints"; \
	 build/constraints/bin/pip freeze --all | grep -viE '^(tastespace|setuptools)'; echo torch==2.13.0; echo ray==2.60.0) > constraints.txt

clean:
	rm -rf build dist site $(VENV) $(BENCH)

INSTALL := $(BIN)/python -m pip install -q -c constraints.txt
$(DEMO): pyproject.toml constraints.txt
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(INSTALL) pip scikit-build-core nanobind cmake ninja
	$(INSTALL) --no-build-isolation -e '.[demo]'
	touch $@

$(READY): $(DEMO)
	$(INSTALL) --no-build-isolation -e '.[all]' --group test
	touch $@

$(LINT): $(DEMO)
	$(INSTALL) --group lint
	touch $@

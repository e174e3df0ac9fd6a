# Two commands on a machine with Python 3.11+ and make: `make demo` and `make test`.
# `make` alone lists the rest. Each environment is built again when pyproject.toml or constraints.txt change.

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
.PHONY: help demo test test-pythons soak schedulers differential mutate sanitize lint format docs picture bench same-bytes golden samples clean
MAKEFLAGS += --no-print-directory

VENV := .venv
# What npm leaves behind where it has installed the client that tests/local_service/test_real_clients.py sends with, and
# the schema that tests/report/test_junit.py compares with.
NODE_CLIENT := tests/real_clients/node_modules/.package-lock.json
# `tests/conftest.py` says how many processes, and in which order. What a file of tests shares is made in one of them.
PYTEST := -m pytest -n auto --dist loadfile --no-loadscope-reorder --durations=20 --durations-min=0.1
# What another Python can break: syntax and imports, the C part, numbers, dates, texts, files, processes.
BREAKABLE := tests/test_*.py $(addprefix tests/,native extractors mapper encoder transform validator storage ledger) \
    tests/engines/test_local.py tests/cli/test_process.py tests/cli/test_ctrl_c.py tests/cli/test_help.py
# Asked only when an environment has to be made; `make test PYTHON=python3.12` chooses another.
PYTHON = $(shell .ci/pythons | awk 'NR == 1 {print $$2}')
# Both spellings: older pip constrains the build with the first, newer pip with the second. What pip says is shown when it
# fails: until then it warns of what people configured for other projects.
install = PIP_CONSTRAINT=constraints.txt PIP_BUILD_CONSTRAINT=constraints.txt PIP_DISABLE_PIP_VERSION_CHECK=1 \
    $(@D)/bin/python -m pip install -q -c constraints.txt $(1) >$(@D)/pip.txt 2>&1 || { cat $(@D)/pip.txt >&2; exit 1; }
LIBRARIES = import tomllib; print(*tomllib.load(open("pyproject.toml", "rb"))["project"]["dependencies"], sep="\n")

help:  ## list what can be asked for
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  make %-13s %s\n", $$1, $$2}' Makefile

demo: $(VENV)/.installed  ## plan, rehearse and verify the bundled sample_data: the whole job, offline, no keys
	$(VENV)/bin/backcast demo
	@printf '\nYour own export, in any folder:\n\nexport PATH="%s/bin:$$PATH"\nbackcast survey YOUR_EXPORT\n' "$$PWD/$(VENV)"

test: $(VENV)/.dev $(NODE_CLIENT)  ## run the tests on the default Python; the twenty slowest are listed at the end
	@$(VENV)/bin/python $(PYTEST)

test-pythons: $(VENV)/.dev  ## run the tests of what a Python can break on every other Python 3.11+ found here
	@set -e; default=$$($(VENV)/bin/python -c 'import sys; print("%d.%d" % sys.version_info[:2])'); \
	others=$$(.ci/pythons | awk -v own="$$default" '$$1 != own {print $$1}'); \
	[ -z "$$others" ] || $(MAKE) -j2 $$(printf '$(VENV)-%s/.test ' $$others); \
	for version in $$others; do \
	    echo "tests on Python $$version"; \
	    $(VENV)-$$version/bin/python $(PYTEST) -m "not slow" $(BREAKABLE); \
	done

soak: $(VENV)/.dev  ## the long trials of tests/soak, up to three hours; the first line of each says what it proves and how long it takes
	@for trial in tests/soak/soak_*.py; do sed -n '1s/^"""//p' $$trial; done
	@$(VENV)/bin/python -m pytest -s tests/soak/soak_*.py

schedulers: .venv-dagster/.tool .venv-prefect/.tool .venv-airflow/.tool  ## install the orchestrators of docs/examples, for their tests

differential: $(VENV)/.dev  ## native against Python over mutated rows of every tool; ROWS=200000
	@$(VENV)/bin/python -m tests.support.differential --rows $(or $(ROWS),200000)

mutate: $(VENV)/.dev  ## change each part of every shipped mapping in turn: 95 % of the changes must fail a case
	@ls mappings/*.yaml | xargs -n 1 -P 2 $(VENV)/bin/backcast mapping test --mutate

sanitize: $(VENV)/.dev  ## the C part under address and undefined-behaviour sanitizers, over mutated rows; ROWS=20000
	@.ci/sanitize $(VENV)/bin/python $(or $(ROWS),20000)

lint: $(VENV)/.dev  ## ruff, its formatter and mypy, changing nothing
	$(VENV)/bin/ruff check .
	$(VENV)/bin/ruff format --check .
	$(VENV)/bin/mypy

format: $(VENV)/.dev  ## let ruff mend and format the code
	$(VENV)/bin/ruff check --fix .
	$(VENV)/bin/ruff format .

docs: $(VENV)/.dev  ## build the documentation into build/docs; a dead link or an orphaned page is an error
	$(VENV)/bin/python -m sphinx -q -E -W --keep-going -b html -d build/doctrees docs build/docs

picture: $(VENV)/.installed  ## take the pictures of README and docs from the demo's story; needs Chromium
	@sh docs/images/take.sh $(VENV)/bin/backcast

bench: $(VENV)/.installed .venv-bench/.installed  ## speed and memory beside the peers; BENCH="--events 200000 --only csv"
	@$(VENV)/bin/python -B benchmarks/compare.py --peer-python .venv-bench/bin/python $(BENCH)

same-bytes: $(VENV)/.dev  ## plan and send with another version, too, and compare; AGAINST=ITS/backcast ROWS=20000
	@$(VENV)/bin/python -B benchmarks/same_bytes.py --against $(AGAINST) --rows $(or $(ROWS),20000)

golden: $(VENV)/.dev  ## write the golden files again, to be read as a diff
	$(VENV)/bin/python tests/golden/regenerate.py

samples: $(VENV)/.installed  ## write sample_data again from its seed
	$(VENV)/bin/python -m sample_data.generate

clean:  ## remove the environments and caches
	rm -rf .venv .venv-3.* .venv-bench tests/real_clients/node_modules .mypy_cache .ruff_cache .pytest_cache .hypothesis build dist
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

# A Debian Python without ensurepip can still hand its own pip to a new environment.
define new-environment
@test -n "$(PYTHON)" || { echo "Error: no Python 3.11 or later that can make an environment."; \
    echo "Try: install python3.11 with its venv module, or name one with PYTHON=PATH."; exit 2; } >&2
@echo "making $(@D) with $(PYTHON)"
@rm -rf $(@D)
@$(PYTHON) -m venv $(@D) || { rm -rf $(@D); $(PYTHON) -m venv --without-pip $(@D) && \
    $(PYTHON) -m pip --python $(@D)/bin/python install -q pip; }
endef

WHAT_IT_IS_MADE_OF := pyproject.toml constraints.txt hatch_build.py $(wildcard pipeline/native/*.[ch])

# What an environment is made for says what else it holds, so that nothing is installed twice.
$(VENV)/.dev: EXTRA = [dev]
$(VENV)/.installed: $(WHAT_IT_IS_MADE_OF)
	$(new-environment)
	@echo "installing the libraries of backcast (some minutes, if they have to be downloaded)"
	@$(@D)/bin/python -c '$(LIBRARIES)' >$(@D)/libraries.txt
	@$(call install,-r $(@D)/libraries.txt)
	@echo "building backcast$(if $(EXTRA), and installing what its development needs)"
	@$(call install,-e '.$(EXTRA)')
	@$(@D)/bin/backcast --version
	@echo '$(EXTRA)' >$@

$(VENV)/.dev: $(VENV)/.installed
	@grep -q dev $< || { echo "installing what the development of backcast needs"; $(call install,-e '.[dev]'); }
	@touch $@

# For the tests on another Python: without the linters, and only what is imported is compiled.
$(VENV)-3.%/.test: override PYTHON = $(shell .ci/pythons | awk '$$1 == "3.$*" {print $$2}')
$(VENV)-3.%/.test: $(WHAT_IT_IS_MADE_OF)
	$(new-environment)
	@$(call install,--no-compile -e '.[test]')
	@touch $@

# Without Node, or offline, the tests of it are skipped and say so.
$(NODE_CLIENT): tests/real_clients/package-lock.json
	@! command -v npm >/dev/null || npm ci --silent --ignore-scripts --no-audit --prefix tests/real_clients || \
	    echo "the packages of Node could not be installed: their tests are skipped"

# Prefect 3.8 does not start with the newest FastAPI that it allows.
TOOL_dagster := dagster
TOOL_prefect := prefect 'fastapi<0.140'
TOOL_airflow := apache-airflow

.venv-%/.tool:
	$(new-environment)
	@$(@D)/bin/python -m pip install -q --disable-pip-version-check -e . $(TOOL_$*)
	@touch $@

.venv-bench/.installed: benchmarks/requirements.txt
	$(new-environment)
	@$(@D)/bin/python -m pip install -q --disable-pip-version-check -r benchmarks/requirements.txt
	@touch $@

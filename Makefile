# One line each, and the same in CI. Every target does its own set-up from nothing.
.PHONY: setup stripe_mock demo test quick proof check lint ruff format mypy imports tidy up down bench sbom

setup: ; @sh compose/set_up.sh
# built once for a user; a test that needs it would take its time otherwise
stripe_mock: setup ; @.venv/bin/python -m tests.worlds.payments.stripe_mock
# posts of real people along a real graph, where the data that this was developed with lie beside the checkout
PEOPLE = ../shared/data/social
demo: setup ; @.venv/bin/millrace demo $(if $(wildcard $(PEOPLE)/musae_git_edges.csv.gz),--social $(PEOPLE))
# These two folders take half of the time of all tests. CI gives ALL=1, which runs them too.
SYSTEMS = --ignore tests/e2e --ignore tests/faults
# bytecode is kept: dozens of processes start in a run, and each would compile its modules anew. CI gives RUN=tests.rerun
test: setup stripe_mock
	@PYTHONDONTWRITEBYTECODE= .venv/bin/python -m $(or $(RUN),pytest) -n $(or $(WORKERS),auto) --dist loadfile $(if $(ALL),,$(SYSTEMS))
# pytest would listen three times in each test for what libraries log, and no unit reads it
quick: setup ; @PYTHONDONTWRITEBYTECODE= .venv/bin/python -m pytest -q -p no:logging tests/unit
proof: setup ; @PYTHONDONTWRITEBYTECODE= .venv/bin/python -m tests.proof $(PARTS)
# side by side, and all of them even if one fails
check: setup ; @$(MAKE) --no-print-directory -j -k mypy tidy ruff format imports
lint: setup ; @$(MAKE) --no-print-directory -j -k mypy ruff format imports
ruff: ; @.venv/bin/ruff check .
format: ; @.venv/bin/ruff format --check .
mypy: ; @.venv/bin/mypy
imports: ; @.venv/bin/lint-imports
tidy: ; @.venv/bin/python -m pytest -q tests/tidy
up: setup ; @.venv/bin/millrace up
down: setup ; @.venv/bin/millrace down
bench: setup ; @.venv/bin/millrace bench owner --json && .venv/bin/millrace bench http --json
# what an installation is made of, as CycloneDX: make -s sbom > sbom.cdx.json
sbom: setup ; @.venv/bin/python -m compose.bill_of_materials

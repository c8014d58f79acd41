# One line each, and the same in CI. `make demo` and `make test` do their own set-up from nothing.
.PHONY: setup stripe_mock demo test check up down bench

setup: ; @sh compose/set_up.sh
# built once for a user; a test that needs it would take its time otherwise
stripe_mock: setup ; @.venv/bin/python -m tests.stripe_mock
demo: setup ; @.venv/bin/millrace demo
# bytecode is kept: dozens of processes start in a run, and each would compile its modules anew
test: setup stripe_mock ; @PYTHONDONTWRITEBYTECODE= .venv/bin/python -m pytest -n $(or $(WORKERS),3) --dist loadfile
check: setup ; @.venv/bin/ruff check . && .venv/bin/ruff format --check . && .venv/bin/mypy && .venv/bin/lint-imports && .venv/bin/python -m pytest -q tests/tidy
up: setup ; @.venv/bin/millrace up
down: setup ; @.venv/bin/millrace down
bench: setup ; @.venv/bin/millrace bench owner --json && .venv/bin/millrace bench http --json

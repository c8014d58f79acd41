#!/bin/sh
# Makes .venv from the hash-pinned locks, or does nothing when it is up to date. Safe to run twice at once.
set -eu
cd "$(dirname "$0")/.."

suits() { "$1" -c 'import sys; sys.exit(not (3, 11) <= sys.version_info[:2] <= (3, 12))' 2>/dev/null; }
python=
for candidate in ${PYTHON:-python3 python3.12 python3.11}; do
    if suits "$candidate"; then python=$candidate; break; fi
done
if [ -z "$python" ]; then
    echo "Millrace needs Python 3.11 or 3.12 (bytewax has no wheels for newer ones): install one, or run make PYTHON=path" >&2
    exit 1
fi

# The stamp names what the environment was made from; any other content means that it must be made again.
stamp=.venv/made-from
wanted="$(cat requirements/bootstrap.txt requirements/dev.txt pyproject.toml limiter/*/_*.c | cksum) in $PWD"
exec 9<requirements/dev.txt
if command -v flock >/dev/null; then flock 9; fi
if [ -x .venv/bin/millrace ] && [ "$(cat "$stamp" 2>/dev/null)" = "$wanted" ] && suits .venv/bin/python; then exit 0; fi

echo "setting up .venv (once; some minutes when nothing is cached)" >&2
suits .venv/bin/python || "$python" -m venv --clear .venv || {
    echo "cannot make a virtual environment: on Debian or Ubuntu install python3-venv" >&2
    exit 1
}
rm -f "$stamp"
.venv/bin/python -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements/bootstrap.txt
.venv/bin/uv pip sync --quiet --python .venv/bin/python --require-hashes requirements/dev.txt
.venv/bin/uv pip install --quiet --python .venv/bin/python --no-deps --no-build-isolation --editable .
# faster first start; without what is large and that no process of ours imports at its start
rarely='/(pandas|moto|datastore|stripe|pip|setuptools|mypy|mypyc|playwright|envoy|lexers|schemathesis|graphql|beancount|cyclonedx|tests?)/'
.venv/bin/python -m compileall -q -j 0 -x "$rarely" .venv/lib/python3*/site-packages >/dev/null 2>&1 || true
.venv/bin/python -m compose.stack.kafka_archive
echo "$wanted" >"$stamp"

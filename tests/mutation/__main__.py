"""Runs the fast tests of the domain once per mutant, in a forked process with bounded time; prints what survived.

``python -m tests.mutation ledger refund`` takes minutes and needs no servers. A mutant is killed when a test fails. One
whose tests do not end in time is judged again with ten times as much: a busy machine kills no mutant. Tests that generate
run last: most mutants are dead by then.
"""

from __future__ import annotations

import importlib.abc
import importlib.machinery
import os
import signal
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import ModuleType
from typing import Final

import hypothesis
import hypothesis.stateful  # imported once for all forks
import pytest

from tests.mutation.mutants import Mutant, mutants_of

#: what is mutated, and the tests that must notice
DOMAIN: Final = Path("dataflows/payments/domain")
_UNIT: Final = (
    *("ledger", "domain_refunds", "domain_refund_reasons", "domain_disputes", "domain_settlement", "domain_journal"),
    *("domain_facts", "domain_states", "domain_accounts", "domain_update", "domain_authorization"),
)
TESTS: Final = (
    *(f"tests/unit/payments/test_{name}.py" for name in _UNIT),
    *(
        f"tests/property/payments/test_{name}.py"
        for name in ("domain_properties", "every_door", "refunds_and_disputes", "account_histories")
    ),
)
_SECONDS_MAX: Final = 60
_PATIENCE: Final = 10  # times as long, for what was not judged in time
_AIM: Final = 0.85


class _Mutated(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Gives one module another source, whoever imports it first."""

    def __init__(self, module: str, source: str) -> None:
        self._module, self._source = module, source

    def find_spec(self, name: str, *_: object) -> importlib.machinery.ModuleSpec | None:
        return importlib.machinery.ModuleSpec(name, self) if name == self._module else None

    def exec_module(self, module: ModuleType) -> None:
        exec(compile(self._source, self._module, "exec"), module.__dict__)


def survives(module: str, source: str, seconds_max: int = _SECONDS_MAX) -> bool:
    """True when every test passes with this source, in a process of its own."""
    pid = os.fork()
    if pid == 0:
        _silence()
        sys.meta_path.insert(0, _Mutated(module, source))
        hypothesis.settings.register_profile("mutation", database=None, derandomize=True)
        hypothesis.settings.load_profile("mutation")
        code = pytest.main(["-x", "-q", "-p", "no:cacheprovider", "-p", "no:xdist", "--assert=plain", *TESTS])
        os._exit(int(code))
    bound = threading.Timer(seconds_max, os.kill, (pid, signal.SIGKILL))
    bound.start()
    _, status = os.waitpid(pid, 0)
    bound.cancel()
    if os.WIFSIGNALED(status) and seconds_max < _PATIENCE * _SECONDS_MAX:
        return survives(module, source, _PATIENCE * _SECONDS_MAX)
    return status == 0


def _silence() -> None:
    nothing = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nothing, 1)
    os.dup2(nothing, 2)


def _say(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


def file_of(name: str) -> Path:
    """The module of that name, in whichever room of the domain it stands; exits when there is none, or several."""
    found = sorted(DOMAIN.rglob(f"{name}.py"))
    if len(found) != 1:
        sys.exit(f"{name}: {len(found)} modules of the domain have this name")
    return found[0]


def judged(name: str, pool: ThreadPoolExecutor) -> bool:
    """Prints the survivors of one module and how many were killed; True when it is enough."""
    file = file_of(name)
    module, source = ".".join(file.with_suffix("").parts), file.read_text()
    if not survives(module, source, _PATIENCE * _SECONDS_MAX):
        sys.exit(f"{name}: the tests fail without any mutation")
    mutants = mutants_of(source)
    alive: list[Mutant] = []
    for mutant, lives in zip(mutants, pool.map(lambda m: survives(module, m.source), mutants), strict=True):
        if lives:
            alive.append(mutant)
            _say(f"survived {file}:{mutant.line}: {mutant.what}")
    killed = len(mutants) - len(alive)
    _say(f"{name}: {killed} of {len(mutants)} mutants killed, {killed / len(mutants):.0%}")
    return killed >= _AIM * len(mutants)


def main() -> None:
    """Judges the modules that are named; exit status 1 when one is below the aim."""
    names = sys.argv[1:] or ["ledger", "posting", "refund", "refund_outcome", "dispute", "settlement", "journal"]
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        results = [judged(name, pool) for name in names]
    sys.exit(0 if all(results) else 1)


if __name__ == "__main__":
    main()

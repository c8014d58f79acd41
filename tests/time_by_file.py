"""Where the time of a run goes: ``.venv/bin/python -m pytest -p tests.time_by_file ...`` prints it by file and by worker."""

from __future__ import annotations

import time
from collections import Counter, defaultdict
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    import pytest

_FILES_SHOWN: Final = 60

_of_file: dict[str, Counter[str]] = defaultdict(Counter)  # file -> seconds by phase
_of_worker: Counter[str] = Counter()
_last_word: dict[str, float] = {}


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    """With xdist the process in charge hears of every worker's tests."""
    _of_file[report.nodeid.partition("::")[0]][report.when] += report.duration
    node = getattr(report, "node", None)
    worker = node.gateway.id if node else "alone"
    _of_worker[worker] += report.duration
    _last_word[worker] = time.monotonic()


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Seconds of set-up are starts of stacks and servers, mostly; a worker that was done early had nothing left to do."""
    terminalreporter.section("time by file: all, set-up, tests, the end")
    for file, phases in sorted(_of_file.items(), key=lambda item: -item[1].total())[:_FILES_SHOWN]:
        parts = "".join(f"{phases[phase]:8.1f}" for phase in ("setup", "call", "teardown"))
        terminalreporter.write_line(f"{phases.total():8.1f}{parts}  {file}")
    over = max(_last_word.values(), default=0.0)
    for worker, seconds in sorted(_of_worker.items()):
        early = over - _last_word[worker]
        terminalreporter.write_line(f"{worker}: {seconds:.0f} s in tests, done {early:.0f} s before the last")

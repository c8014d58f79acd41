"""Where the time of a run goes: at the end of every run, by file and by worker, and which files became slower.

The seconds of each file that ran whole and passed are kept in pytest's cache (``.pytest_cache``, not in git). The next run of
this checkout is compared with them, and begins with the longest files.
"""

from __future__ import annotations

import time
from collections import Counter, defaultdict
from typing import TYPE_CHECKING, Final

import pytest

from tests.gate import PROOF

if TYPE_CHECKING:
    from collections.abc import Mapping

#: the rest is in the record
_FILES_SHOWN: Final = 15
#: slower is what takes so many times as long as before, and so many seconds longer
_SLOWER_TIMES: Final = 1.5
_SLOWER_S: Final = 5.0
#: the proof tries more examples: its seconds are others
_RECORD: Final = f"millrace/seconds_by_file_{'proof' if PROOF else 'gate'}"
_FOR_WORKERS: Final = "millrace_seconds_by_file"
_KNOWN: Final = pytest.StashKey[dict[str, float]]()

_of_file: dict[str, Counter[str]] = defaultdict(Counter)  # file -> seconds by phase
_of_worker: Counter[str] = Counter()
_last_word: dict[str, float] = {}
_failed: set[str] = set()
_crashed: list[object] = []


def known_seconds(config: pytest.Config) -> dict[str, float]:
    """How long each file took when it last ran whole.

    Workers are told by the process in charge: they must all sort alike, whoever writes the record meanwhile.
    """
    if _KNOWN not in config.stash:
        told = getattr(config, "workerinput", None)
        cache = getattr(config, "cache", None)
        config.stash[_KNOWN] = told[_FOR_WORKERS] if told else cache.get(_RECORD, {}) if cache else {}
    return config.stash[_KNOWN]


def slower(before: Mapping[str, float], now: Mapping[str, float]) -> list[str]:
    """A line for each file that takes notably longer than before."""
    known = [(file, before[file], seconds) for file, seconds in sorted(now.items()) if file in before]
    return [
        f"slower: {file} was {was:.1f} s, now {seconds:.1f} s"
        for file, was, seconds in known
        if seconds > was * _SLOWER_TIMES and seconds - was > _SLOWER_S
    ]


@pytest.hookimpl(optionalhook=True)
def pytest_configure_node(node: object) -> None:
    node.workerinput[_FOR_WORKERS] = known_seconds(node.config)  # type: ignore[attr-defined]  # xdist's


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(error: object) -> None:
    if error:
        _crashed.append(error)


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    """With xdist the process in charge hears of every worker's tests."""
    file = report.nodeid.partition("::")[0]
    _of_file[file][report.when] += report.duration
    if report.failed:
        _failed.add(file)
    node = getattr(report, "node", None)
    worker = node.gateway.id if node else "alone"
    _of_worker[worker] += report.duration
    _last_word[worker] = time.monotonic()


def _ran_whole(config: pytest.Config, exitstatus: int) -> bool:
    """False when somebody chose tests inside files, or when the run ended before its last test."""
    chosen = ("keyword", "markexpr", "deselect", "lf", "last_failed", "stepwise", "maxfail", "collectonly")
    some = any(getattr(config.option, name, None) for name in chosen) or any("::" in name for name in config.args)
    return not some and not _crashed and exitstatus in (pytest.ExitCode.OK, pytest.ExitCode.TESTS_FAILED)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, exitstatus: int, config: pytest.Config) -> None:
    """Seconds of set-up are starts of servers, mostly; a worker that was done early had nothing left to do."""
    write = terminalreporter.write_line
    terminalreporter.section(f"time by file, the {_FILES_SHOWN} longest: all, set-up, tests, the end")
    for file, phases in sorted(_of_file.items(), key=lambda item: -item[1].total())[:_FILES_SHOWN]:
        parts = "".join(f"{phases[phase]:8.1f}" for phase in ("setup", "call", "teardown"))
        write(f"{phases.total():8.1f}{parts}  {file}")
    write(f"{sum(phases.total() for phases in _of_file.values()):8.1f} s in {len(_of_file)} files")
    over = max(_last_word.values(), default=0.0)
    for worker, seconds in sorted(_of_worker.items()):
        write(f"{worker}: {seconds:.0f} s in tests, done {over - _last_word[worker]:.0f} s before the last")
    cache = getattr(config, "cache", None)
    if cache is None or not _ran_whole(config, exitstatus):
        return
    now = {file: round(phases.total(), 2) for file, phases in _of_file.items() if file not in _failed}
    for line in slower(known_seconds(config), now):
        write(line)
    kept = {file: seconds for file, seconds in cache.get(_RECORD, {}).items() if (config.rootpath / file).exists()}
    cache.set(_RECORD, kept | now)

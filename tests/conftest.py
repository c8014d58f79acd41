"""What holds for every test: seeds, order, timeouts, and a world of a module's own on the servers of the run."""

from __future__ import annotations

import functools
import gc
import os
from bisect import bisect_left
from contextlib import AbstractContextManager, nullcontext
from operator import itemgetter
from typing import TYPE_CHECKING, TypeVar

import httpx
import hypothesis
import psutil
import pytest
import typer.main
import typer.testing

from tests import (
    alarm,
    compiled,
    failures,
    last_words,
    run_folder,
    servers,
    starts,
    time_by_file,
    xdist_reports,
    xdist_scheduler,
)
from tests.eventually import begin_test
from tests.gate import PROOF, RUN_SEED, examples

if TYPE_CHECKING:
    from collections.abc import Generator, Iterator, Sequence
    from pathlib import Path

    from tests.servers import World

# What is imported and collected stays until the end of the run: looking through it again and again for what could go took
# a quarter of a worker's time. pytest_collection_finish begins with what tests make.
gc.disable()

# A client of httpx reads the certificates of all authorities of the world as it is made, in 30 ms of a core, and tests make
# thousands that poll this machine: they share what was read once.
httpx._transports.default.create_ssl_context = functools.cache(httpx._transports.default.create_ssl_context)
# As long takes it to make click's commands of typer's, and a call of the shell within a test begins with it.
vars(typer.testing)["_get_command"] = functools.cache(typer.main.get_command)

# No test asserts on time: an example or a draw that is slow says that the machine is busy, and nothing else.
# No database of earlier failures: a run of the gate is the same on every machine.
hypothesis.settings.register_profile(
    "patient",
    deadline=None,
    suppress_health_check=[hypothesis.HealthCheck.too_slow],
    database=None,
    max_examples=examples(25, 100),  # of a property that names no number of its own
)
if hypothesis.settings.get_current_profile_name() == "default":  # tests.mutation has a profile of its own
    hypothesis.settings.load_profile("patient")


_WORKER_BYTES = 3 * 1024**3  # the public system takes 1.6 GB, a stack of servers 0.6 GB, and a test may start one more
_WORKERS_MAX = 8
_ALLOCATIONS_BETWEEN_COLLECTIONS = 100_000
_WITHOUT_SERVERS = 3
_PROOF_TIMEOUT_TIMES = 5
_T = TypeVar("_T")


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_auto_num_workers() -> int:
    """Seven workers for two cores: a test that kills something waits for leases and restarts most of its time.

    At least two, as ever; more only where the memory is there, and no more than files can keep busy.
    """
    room = psutil.virtual_memory().available // _WORKER_BYTES
    return max(2, min(7 * (os.cpu_count() or 1) // 2, room, _WORKERS_MAX))


@pytest.hookimpl(tryfirst=True)
def pytest_configure(config: pytest.Config) -> None:
    """The run's seed is Hypothesis' seed too, unless one was given.

    xdist would begin with the files of the most tests, and end waiting for those of few and long ones.
    """
    config.pluginmanager.register(time_by_file)
    config.pluginmanager.register(compiled)
    config.pluginmanager.register(alarm)
    config.pluginmanager.register(last_words)
    config.pluginmanager.register(xdist_scheduler)
    config.pluginmanager.register(xdist_reports)
    if not hasattr(config, "workerinput"):
        config.pluginmanager.register(failures.Failures(config))
        if config.getoption("numprocesses", None) and (missing := run_folder.room_missing()):
            run_folder.remove()
            pytest.exit(missing, returncode=pytest.ExitCode.USAGE_ERROR)
    starts.install()
    if config.option.hypothesis_seed is None:
        config.option.hypothesis_seed = str(RUN_SEED)
    if hasattr(config.option, "loadscopereorder"):
        config.option.loadscopereorder = False
    if getattr(config.option, "maxworkerrestart", 0) is None:
        config.option.maxworkerrestart = "0"  # a worker that crashed ends the run: without it, xdist may wait for ever


def pytest_report_header(config: pytest.Config) -> str:
    """What makes this run again."""
    kind = "the proof, exhaustive" if PROOF else "the gate"
    left = " and ".join(config.getoption("ignore") or ())
    without = f" without {left}" if left else ""
    return f"millrace: {kind}{without}; MILLRACE_RUN_SEED={RUN_SEED}"


def _leave_to_the_proof(config: pytest.Config, items: list[pytest.Item]) -> None:
    """What is marked ``proof`` is not of the gate."""
    left = [item for item in items if item.get_closest_marker("proof")]
    if PROOF or not left:
        return
    config.hook.pytest_deselected(items=left)
    items[:] = [item for item in items if not item.get_closest_marker("proof")]


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Files in this order: stacks of their own, servers of the session, the public system; of each the longest first.

    What is long begins first, and no stack idles beside tests that do not need it. Files without servers compute while others
    wait: they come between them, and what is short of them fills the end.
    Files that want the public system alone come early: hardly anybody else uses it then, who would have to wait.
    The proof tries more in one test, and gives it more time.
    """
    _leave_to_the_proof(config, items)
    for item in items if PROOF else ():
        item.add_marker(pytest.mark.timeout(_PROOF_TIMEOUT_TIMES * _timeout_s(item)), append=False)
    files: dict[Path, list[pytest.Item]] = {}
    for item in items:
        files.setdefault(item.path, []).append(item)
    known = time_by_file.known_seconds(config)

    def by_turn_and_length(file: list[pytest.Item]) -> tuple[int, float]:
        return _turn(file), -known.get(file[0].nodeid.partition("::")[0], 0.0)

    ordered = sorted(files.values(), key=by_turn_and_length)
    begin = bisect_left(ordered, _WITHOUT_SERVERS, key=_turn)
    items[:] = [item for file in spread(ordered[:begin], ordered[begin:]) for item in file]


def spread(waiting: Sequence[_T], computing: Sequence[_T]) -> list[_T]:
    """All of both, each in its order: the first two thirds of what computes evenly among what waits, the rest behind it."""
    among = len(computing) * 2 // 3
    placed = [((n + 0.5) / len(waiting), 0, one) for n, one in enumerate(waiting)]
    placed += [((n + 0.5) / among, 1, one) for n, one in enumerate(computing[:among])]
    return [one for *_, one in sorted(placed, key=itemgetter(0, 1))] + [*computing[among:]]


def pytest_collection_finish() -> None:
    """From here on garbage is collected, of what is made from here on; rarely: a test ends before it matters."""
    gc.freeze()
    gc.set_threshold(_ALLOCATIONS_BETWEEN_COLLECTIONS)
    gc.enable()


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_protocol(item: pytest.Item) -> Generator[None, object, object]:
    """From here on the clock of pytest-timeout runs; waits end before it does.

    The public system is everybody's: who disturbs it (marked ``alone``) waits for all others, and they for it.
    """
    turn: AbstractContextManager[None] = nullcontext()
    if "public" in getattr(item, "fixturenames", ()):
        turn = run_folder.locked("public", shared=item.get_closest_marker("alone") is None)
    with turn:
        begin_test(_timeout_s(item) or float("inf"))
        return (yield)


def pytest_unconfigure() -> None:
    """The servers of the run end with it."""
    servers.end_run()
    starts.end()


def _timeout_s(item: pytest.Item) -> float:
    """As marked, else as configured; 0 is none."""
    marker = item.get_closest_marker("timeout")
    return float(marker.args[0] if marker else item.config.getoption("timeout") or item.config.getini("timeout"))


def _turn(file: list[pytest.Item]) -> int:
    used = {name for item in file for name in getattr(item, "fixturenames", ())}
    of_public = [item for item in file if "public" in getattr(item, "fixturenames", ())]
    is_alone = bool(of_public) and all(item.get_closest_marker("alone") for item in of_public)
    if of_public and not is_alone:
        return 2
    if is_alone or "stack" in used:
        return 1
    return 0 if any(item.get_closest_marker("servers") for item in file) else _WITHOUT_SERVERS


@pytest.fixture(scope="module")
def stack(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    """Parts of Kafka, Postgres, Valkey and ClickHouse that only this module uses, migrated and empty; no service runs."""
    with servers.world(tmp_path_factory.mktemp("world")) as made:
        yield made

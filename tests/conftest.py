"""Fixtures that need real servers: one embedded stack for the whole pytest session, in a temporary home."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import TYPE_CHECKING

import hypothesis
import psutil
import psycopg
import pytest

from compose.settings import PREFIX, Addresses, Settings
from compose.stack.errors import StackError
from compose.supervise import launch
from tests.eventually import begin_test, timeout_of_test
from tests.gate import PROOF, RUN_SEED

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


# No test asserts on time: an example or a draw that is slow says that the machine is busy, and nothing else.
# No database of earlier failures: a run of the gate is the same on every machine.
hypothesis.settings.register_profile(
    "patient", deadline=None, suppress_health_check=[hypothesis.HealthCheck.too_slow], database=None
)
if hypothesis.settings.get_current_profile_name() == "default":  # tests.mutation has a profile of its own
    hypothesis.settings.load_profile("patient")


_WORKER_BYTES = 3 * 1024**3  # the public system takes 1.6 GB, a stack of servers 0.6 GB, and a test may start one more
_WORKERS_MAX = 6


@dataclass(frozen=True)
class Stack:
    """The embedded servers of this session; no service of ours runs in it."""

    settings: Settings
    addresses: Addresses
    home: Path


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_auto_num_workers() -> int:
    """One worker more than cores: a test that kills something waits for leases and restarts half of its time.

    At least two, as ever; more only where the memory is there, and no more than files can keep busy.
    """
    room = psutil.virtual_memory().available // _WORKER_BYTES
    return max(2, min((os.cpu_count() or 1) + 1, room, _WORKERS_MAX))


@pytest.hookimpl(tryfirst=True)
def pytest_configure(config: pytest.Config) -> None:
    """The run's seed is Hypothesis' seed too, unless one was given.

    xdist would begin with the files of the most tests, and end waiting for those of few and long ones.
    """
    if config.option.hypothesis_seed is None:
        config.option.hypothesis_seed = str(RUN_SEED)
    if hasattr(config.option, "loadscopereorder"):
        config.option.loadscopereorder = False


def pytest_report_header() -> str:
    """What makes this run again."""
    kind = "the proof, exhaustive" if PROOF else "the gate"
    return f"millrace: {kind}; MILLRACE_RUN_SEED={RUN_SEED}"


def _leave_to_the_proof(config: pytest.Config, items: list[pytest.Item]) -> None:
    """What is marked ``proof`` is not of the gate."""
    left = [item for item in items if item.get_closest_marker("proof")]
    if PROOF or not left:
        return
    config.hook.pytest_deselected(items=left)
    items[:] = [item for item in items if not item.get_closest_marker("proof")]


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Files in this order: stacks of their own, servers of the session, the public system, no servers.

    What is long begins first, what is short fills the end, and no stack idles beside tests that do not need it.
    A test's timeout grows with the patience of its waits (TEST_PATIENCE), within bounds.
    """
    _leave_to_the_proof(config, items)
    for item in items:
        item.add_marker(pytest.mark.timeout(timeout_of_test(_timeout_s(item))), append=False)
    files: dict[Path, list[pytest.Item]] = {}
    for item in items:
        files.setdefault(item.path, []).append(item)
    items[:] = [item for file in sorted(files.values(), key=_turn) for item in file]


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_protocol(item: pytest.Item) -> None:
    """From here on the clock of pytest-timeout runs; waits end before it does."""
    begin_test(_timeout_s(item) or float("inf"))


def _timeout_s(item: pytest.Item) -> float:
    """As marked, else as configured; 0 is none."""
    marker = item.get_closest_marker("timeout")
    return float(marker.args[0] if marker else item.config.getoption("timeout") or item.config.getini("timeout"))


def _turn(file: list[pytest.Item]) -> int:
    used = {name for item in file for name in getattr(item, "fixturenames", ())}
    if "public" in used:
        return 2
    if "stack" in used:
        return 1
    return 0 if any(item.get_closest_marker("servers") for item in file) else 3


def servers_missing(reason: str) -> None:
    """A laptop without servers skips; CI (REQUIRE_SERVERS=1) fails."""
    if os.environ.get("REQUIRE_SERVERS") == "1":
        pytest.fail(reason)
    pytest.skip(reason)


def clean_environment() -> dict[str, str]:
    """The environment without settings of the shell that runs the tests."""
    return {name: value for name, value in os.environ.items() if not name.startswith(PREFIX)}


@pytest.fixture(scope="session")
def stack(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    """Kafka, Postgres, Valkey and ClickHouse, empty, ending with this pytest process however that ends."""
    settings = Settings(home=tmp_path_factory.mktemp("home"))
    try:
        launch.up(settings, servers_only=True, tied=True)
    except StackError as error:
        servers_missing(str(error))
    forgo_fsync(settings)
    yield Stack(settings=settings, addresses=settings.addresses(), home=settings.the_home().path)
    launch.down(settings)


def forgo_fsync(settings: Settings) -> None:
    """Postgres of servers that no test kills: a commit is as atomic, and waits for no disk.

    What is not flushed is lost with the machine's power only, which no test cuts. Stacks whose servers are killed keep it on.
    """
    with psycopg.connect(settings.addresses().postgres_superuser_dsn, autocommit=True) as connection:
        connection.execute("alter system set fsync = off")
        connection.execute("alter system set full_page_writes = off")
        connection.execute("select pg_reload_conf()")

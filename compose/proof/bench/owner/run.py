"""One run of the owner benchmark: real owner processes work off the pre-filled topic while the clock runs.

The owners join first, with every partition held in Postgres; then the partitions are let go. The rate is taken over the
window in which every owner process is at work: from the moment each has committed to the moment one has nothing left.
"""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import httpx
import psycopg

from compose import limits
from compose.proof.bench.cpu import cpu_seconds, machine_seconds
from compose.proof.bench.owner import measured_owner
from compose.proof.bench.owner.statement_samples import StatementSampler
from compose.proof.bench.world import World, hold_partitions, release_partitions
from compose.stack.errors import StackError
from compose.stack.ports import PortLeases
from dataflows.owner.drivers import Driver

_TICK_S: Final = 0.1
_READY_TIMEOUT_S: Final = 30
_RUN_TIMEOUT_S: Final = 300
_WAL: Final = "select pg_wal_lsn_diff(pg_current_wal_insert_lsn(), '0/0')::bigint"
_POSITIONS: Final = "select partition, next_offset, owner_id from partition_owner order by partition"


@dataclass(slots=True)
class Sample:
    """Positions and CPU at one moment."""

    at: float
    offsets: list[int]
    owners: list[str]
    cpu: dict[str, float]
    others_cpu_s: float  # of everything on the machine but these groups and this process


@dataclass(slots=True)
class OwnerRun:
    """What one run showed."""

    processes: int
    driver: Driver
    commands: int
    commands_per_s: float
    wall_s: float
    window_s: float
    batch_size_mean: float
    cpu_us_per_command: dict[str, float]
    cpus_used_by_others: float  # well above zero: the machine was shared, and the rates are too low
    wal_bytes_per_command: float = 0.0  # what Postgres wrote for good, over the whole run
    python_share: dict[str, float] = field(default_factory=dict)
    postgres_share: dict[str, float] = field(default_factory=dict)


class OwnerProcesses:
    """Owner services as processes of the operating system, on a database of their own."""

    def __init__(self, world: World, dsn: str, processes: int, driver: Driver, folder: Path) -> None:
        self._leases = PortLeases()
        self.ops_ports = [self._leases.take_any() for _ in range(processes)]
        self.profiles = [folder / f"profile-{n}.json" for n in range(processes)]
        self.measuring = folder / "measuring"
        self.log = folder / "owners.log"
        with self.log.open("ab") as output:
            self.children = [
                subprocess.Popen(
                    [sys.executable, "-m", "compose.proof.bench.owner.measured_owner", "--instance", str(n)],
                    env={
                        **os.environ,
                        **world.settings.environment(),
                        "MILLRACE_POSTGRES_DSN": dsn,
                        "MILLRACE_OWNER_DRIVER": driver,
                        "MILLRACE_OPS_PORT": str(port),
                        measured_owner.PROFILE_VARIABLE: str(profile),
                        measured_owner.MEASURE_VARIABLE: str(self.measuring),
                    },
                    stdout=output,
                    stderr=subprocess.STDOUT,
                )
                for n, (port, profile) in enumerate(zip(self.ops_ports, self.profiles, strict=True))
            ]

    @property
    def pids(self) -> list[int]:
        """Of the owner processes, in the order of their instances."""
        return [child.pid for child in self.children]

    def must_run(self) -> None:
        """Raises StackError with the last line of the log when an owner has ended."""
        if any(child.poll() is not None for child in self.children):
            lines = self.log.read_text(errors="replace").strip().splitlines() or ["without a word"]
            raise StackError(f"an owner process ended during the benchmark: {lines[-1]}")

    def batches(self) -> tuple[float, float]:
        """Commands and batches committed so far, from the owners' own metrics."""
        commands = batches = 0.0
        for port in self.ops_ports:
            text = httpx.get(f"http://127.0.0.1:{port}/metrics", timeout=limits.HEALTH_CHECK_TIMEOUT_S).text
            commands += _metric(text, "millrace_owner_batch_commands_sum")
            batches += _metric(text, "millrace_owner_batch_commands_count")
        return commands, batches

    def python_share(self) -> dict[str, float]:
        """After the end: the share of samples per part of the owner, waiting included."""
        parts: Counter[str] = Counter()
        for profile in self.profiles:
            if profile.exists():
                parts.update(json.loads(profile.read_text())["parts"])
        return shares(parts)

    def stop(self) -> None:
        """Drains the owners; kills one that does not end."""
        for child in self.children:
            if child.poll() is None:
                child.send_signal(signal.SIGTERM)
        for child in self.children:
            try:
                child.wait(limits.SERVICE_STOP_TIMEOUT_S)
            except subprocess.TimeoutExpired:
                child.kill()
                child.wait()
        self._leases.close()


def _metric(text: str, name: str) -> float:
    found = re.search(rf"^{name} (\S+)$", text, re.MULTILINE)
    return float(found.group(1)) if found else 0.0


def shares(counts: Counter[str]) -> dict[str, float]:
    """Counts as fractions of their sum, the largest first."""
    total = sum(counts.values()) or 1
    return {name: round(count / total, 3) for name, count in counts.most_common()}


@contextmanager
def owners(world: World, dsn: str, processes: int, driver: Driver) -> Iterator[OwnerProcesses]:
    """Owner processes that have joined; drained at the end, also after an error."""
    with tempfile.TemporaryDirectory(prefix="millrace-owners-") as folder:
        running = OwnerProcesses(world, dsn, processes, driver, Path(folder))
        try:
            yield running
        finally:
            running.stop()


def run_owners(
    world: World, dsn: str, starts: Sequence[int], ends: Sequence[int], processes: int, driver: Driver
) -> OwnerRun:
    """Works off the offsets from ``starts`` to ``ends`` with so many owner processes and measures them."""
    with psycopg.connect(dsn, autocommit=True) as connection, owners(world, dsn, processes, driver) as running:
        hold_partitions(connection, starts, held=True)
        groups = process_groups(world, running)
        wait_until_joined(connection, running, processes)
        running.measuring.touch()
        with StatementSampler(dsn) as statements:
            written = _wal_bytes(connection)
            release_partitions(connection)
            samples = _watch(connection, running, groups, ends)
            written = _wal_bytes(connection) - written
        running.measuring.unlink()
        commands, batches = running.batches()
        running.stop()
        run = _measured(samples, starts, ends, processes, driver)
        run.batch_size_mean = round(commands / max(1, batches), 1)
        run.wal_bytes_per_command = round(written / max(1, run.commands), 1)
        run.python_share = running.python_share()
        run.postgres_share = shares(statements.counts)
        return run


def _wal_bytes(connection: psycopg.Connection[Any]) -> int:
    row = connection.execute(_WAL).fetchone()
    return 0 if row is None else int(row[0])


def process_groups(world: World, running: OwnerProcesses) -> dict[str, list[int]]:
    """Whose CPU is counted, by name."""
    servers = world.server_pids()
    named = {name: [servers[name]] if name in servers else [] for name in ("postgres", "kafka")}
    return {"owner": running.pids, **named}


def wait_until_joined(connection: psycopg.Connection[Any], running: OwnerProcesses, processes: int) -> None:
    """Every partition has an owner, every process has one, and that was so for a second. May raise StackError."""
    deadline = time.monotonic() + _READY_TIMEOUT_S
    stable_since = time.monotonic()
    before: list[Any] = []
    while time.monotonic() < deadline:
        running.must_run()
        rows = connection.execute(_POSITIONS).fetchall()
        holders = {row[2] for row in rows}
        if rows != before or "" in holders or len(holders) != processes:
            before, stable_since = rows, time.monotonic()
        elif time.monotonic() - stable_since > 1:
            return
        time.sleep(_TICK_S)
    raise StackError("the owners did not share out the partitions in time: the machine is too busy to measure")


def _watch(
    connection: psycopg.Connection[Any], running: OwnerProcesses, groups: dict[str, list[int]], ends: Sequence[int]
) -> list[Sample]:
    samples: list[Sample] = []
    deadline = time.monotonic() + _RUN_TIMEOUT_S
    while time.monotonic() < deadline:
        running.must_run()
        rows = connection.execute(_POSITIONS).fetchall()
        offsets, owning = [row[1] for row in rows], [row[2] for row in rows]
        samples.append(Sample(time.monotonic(), offsets, owning, cpu_seconds(groups), _others_seconds(groups)))
        if all(offset >= end for offset, end in zip(samples[-1].offsets, ends, strict=True)):
            return samples
        time.sleep(_TICK_S)
    raise StackError("the owners did not finish in time; run with fewer --commands")


def _others_seconds(groups: dict[str, list[int]]) -> float:
    return machine_seconds() - sum(cpu_seconds(groups).values()) - time.process_time()


def _measured(
    samples: list[Sample], starts: Sequence[int], ends: Sequence[int], processes: int, driver: Driver
) -> OwnerRun:
    owners_of: dict[str, list[int]] = {}
    for partition, owner in enumerate(samples[-1].owners):
        owners_of.setdefault(owner, []).append(partition)

    def all_started(s: Sample) -> bool:
        return all(any(s.offsets[p] > starts[p] for p in mine) for mine in owners_of.values())

    def none_finished(s: Sample) -> bool:
        return not any(all(s.offsets[p] >= ends[p] for p in mine) for mine in owners_of.values())

    first = next((n for n, s in enumerate(samples) if any(o > b for o, b in zip(s.offsets, starts, strict=True))), 0)
    window = [s for s in samples if all_started(s) and none_finished(s)]
    after = next((s for s in samples if all_started(s) and not none_finished(s)), samples[-1])
    window.append(after)
    begin, end = window[0], window[-1]
    if end.offsets == begin.offsets:  # too short a run for a window: all of it, start and end included
        begin, end = samples[max(0, first - 1)], samples[-1]
    seconds = max(end.at - begin.at, 1e-3)
    commands = sum(end.offsets) - sum(begin.offsets)
    used = {name: end.cpu[name] - begin.cpu[name] for name in end.cpu}
    return OwnerRun(
        processes=processes,
        driver=driver,
        commands=sum(ends) - sum(starts),
        commands_per_s=round(commands / seconds, 1),
        wall_s=round(samples[-1].at - samples[max(0, first - 1)].at, 3),
        window_s=round(seconds, 3),
        batch_size_mean=0.0,
        cpu_us_per_command={name: round(spent / max(1, commands) * 1e6, 1) for name, spent in used.items()},
        cpus_used_by_others=round((end.others_cpu_s - begin.others_cpu_s) / seconds, 2),
    )

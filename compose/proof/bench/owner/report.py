"""The owner benchmark from end to end: fill the topic, run the drivers, measure the COPY ceiling, compare, report."""

from __future__ import annotations

import os
import platform
import statistics
import time
from collections.abc import Callable
from contextlib import closing
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any, Final

import psycopg

from compose.proof.bench.mix import Mix, signed
from compose.proof.bench.model import Model
from compose.proof.bench.owner.copy_ceiling import batches_of, measure
from compose.proof.bench.owner.end_state import differences
from compose.proof.bench.owner.latency import measure_latency
from compose.proof.bench.owner.run import OwnerRun, run_owners
from compose.proof.bench.world import World, bench_world, fill
from dataflows import limits
from dataflows.owner.drivers import Driver

_SEED: Final = 1
_OPEN_PAYMENTS_MAX: Final = 20_000
_OPEN_SHARE: Final = 5  # of a small run a fifth of the commands is under way at once
_DIFFERENCES_SHOWN_MAX: Final = 20
_PACKAGES: Final = ("millrace", "bytewax", "confluent-kafka", "fastavro", "msgspec", "psycopg")
_SETTINGS: Final = (
    "server_version",
    "fsync",
    "synchronous_commit",
    "full_page_writes",
    "shared_buffers",
    "data_checksums",
)
GOALS: Final = {
    "one_process_per_s": 24_000,
    "two_processes_of_copy_ceiling": 0.8,
    "p99_ms_below": 25.0,
    "wal_bytes_per_command": 2_000,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class OwnerPlan:
    """What is measured."""

    commands: int
    processes: tuple[int, ...]
    repeats: int
    rate: float
    seconds: float
    home: Path | None


class OwnerBench:
    """One benchmark on one world."""

    def __init__(self, world: World, plan: OwnerPlan, say: Callable[[str], None]) -> None:
        self._world = world
        self._plan = plan
        self._say = say
        self._model = Model()
        self._starts: list[int] = []
        self._ends: list[int] = []

    def run(self) -> dict[str, Any]:
        """The whole result."""
        self._fill()
        plain: list[OwnerRun] = []
        runs: dict[int, list[OwnerRun]] = {count: [] for count in self._plan.processes}
        ceilings: list[dict[str, Any]] = []
        matches: dict[int, list[str]] = {count: [] for count in self._plan.processes}
        for repeat in range(self._plan.repeats):
            plain.append(self._owners(1, "plain")[0])
            for count in self._plan.processes:
                run, wrong = self._owners(count, "bytewax", ceiling=ceilings if count == min(runs) else None)
                runs[count].append(run)
                matches[count] += wrong
            self._say(f"pass {repeat + 1} of {self._plan.repeats} done")
        latency = self._latency()
        return self._report(plain, runs, matches, ceilings, latency)

    def _fill(self) -> None:
        count = self._plan.commands
        self._say(f"generating {count} commands")
        mix = Mix(_SEED, min(_OPEN_PAYMENTS_MAX, max(1, count // _OPEN_SHARE)), reply_to=0)
        kafka = self._world.signer()
        records = [signed(command, kafka) for command in mix.commands(count)]
        self._model = mix.model
        self._say("filling the command topic")
        self._starts, self._ends = fill(self._world, records)

    def _owners(
        self, processes: int, driver: Driver, ceiling: list[dict[str, Any]] | None = None
    ) -> tuple[OwnerRun, list[str]]:
        self._say(f"{processes} owner process{'es' if processes > 1 else ''}, {driver} driver")
        name = "bench_owner"
        dsn = self._world.database(name)
        run = run_owners(self._world, dsn, self._starts, self._ends, processes, driver)
        wrong = differences(dsn, self._model)
        if ceiling is not None:
            ceiling.append(self._copy(dsn, run))
        self._world.drop(name)
        return run, wrong

    def _copy(self, finished: str, run: OwnerRun) -> dict[str, Any]:
        self._say("COPY ceiling: the same rows by one connection")
        commands = self._plan.commands
        batches, rows = batches_of(finished, max(1, round(commands / max(1.0, run.batch_size_mean))))
        dsn = self._world.database("bench_copy")
        ceiling = measure(dsn, batches, rows, commands)
        self._world.drop("bench_copy")
        return asdict(ceiling)

    def _latency(self) -> dict[str, Any]:
        self._say(f"latency at {self._plan.rate:g} commands per second")
        dsn = self._world.database("bench_latency")
        found = measure_latency(self._world, dsn, "bytewax", self._plan.rate, self._plan.seconds)
        self._world.drop("bench_latency")
        return found

    def _report(
        self,
        plain: list[OwnerRun],
        runs: dict[int, list[OwnerRun]],
        matches: dict[int, list[str]],
        ceilings: list[dict[str, Any]],
        latency: dict[str, Any],
    ) -> dict[str, Any]:
        ceiling = statistics.median(c["commands_per_s"] for c in ceilings)
        plain_per_s = statistics.median(run.commands_per_s for run in plain)
        return {
            "at": datetime.now(UTC).isoformat(timespec="seconds"),
            "commands": self._plan.commands,
            "copy_ceiling_per_s": ceiling,
            "plain_loop_per_s": plain_per_s,
            "runs": [_row(found, matches[count], ceiling, plain_per_s) for count, found in runs.items()],
            "latency": latency,
            "copy_ceiling": ceilings[-1],
            "plain_loop": asdict(_middle(plain)),
            "goals": GOALS,
            "versions": {name: version(name) for name in _PACKAGES} | {"python": platform.python_version()},
            "machine": {"cpus": os.cpu_count(), "system": platform.platform(), "load": os.getloadavg()},
            "postgres": self._settings(),
            "batches": {"commands_max": limits.BATCH_MESSAGES_MAX, "lanes": limits.OWNER_LANES},
        }

    def _settings(self) -> dict[str, str]:
        with closing(psycopg.connect(self._world.addresses.postgres_superuser_dsn)) as connection:
            rows = connection.execute("select name, setting from pg_settings where name = any(%s)", (list(_SETTINGS),))
            return dict(rows.fetchall())


def _middle(runs: list[OwnerRun]) -> OwnerRun:
    return sorted(runs, key=lambda run: run.commands_per_s)[len(runs) // 2]


def _row(runs: list[OwnerRun], wrong: list[str], ceiling: float, plain_per_s: float) -> dict[str, Any]:
    run = _middle(runs)
    per_s = statistics.median(r.commands_per_s for r in runs)
    return asdict(run) | {
        "commands_per_s": per_s,
        "ratio_to_copy_ceiling": round(per_s / ceiling, 3),
        "ratio_to_plain_loop": round(per_s / plain_per_s, 3),
        "end_state_matches": not wrong,
        "differences": wrong[:_DIFFERENCES_SHOWN_MAX],
    }


def bench_owner(plan: OwnerPlan, say: Callable[[str], None]) -> dict[str, Any]:
    """The result of one benchmark; everything it started is gone afterwards."""
    began = time.monotonic()
    with bench_world(plan.home) as world:
        result = OwnerBench(world, plan, say).run()
    return result | {"seconds": round(time.monotonic() - began, 1)}

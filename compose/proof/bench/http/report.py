"""One run of the HTTP benchmark on a stack that is ready: idle, single commands, lists; one JSON object."""

from __future__ import annotations

import asyncio
import platform
import secrets
import time
from collections import defaultdict
from dataclasses import dataclass
from functools import partial
from importlib.metadata import version
from typing import TYPE_CHECKING, Any, Final

import psycopg

from compose.proof import limits as proof_limits
from compose.proof.bench.cpu import cpu_seconds, memory_mb
from compose.proof.bench.http.bulk import BulkLoad, BulkPlan
from compose.proof.bench.http.closed import ClosedLoad, ClosedPlan
from compose.proof.bench.http.metrics import batches, totals
from compose.proof.bench.http.requests import Requests
from compose.proof.bench.http.single import SingleLoad, SinglePlan
from compose.proof.bench.http.stages import stages
from compose.settings.processes import cpus
from compose.stack.ports import LOOPBACK
from ingress.identity.issuer import KeyFolder, issue_token
from schemas import limits
from sinks.postgres.sql_files import queries

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from compose.proof.kit.own_stack import OwnStack

MERCHANT: Final = "m_bench"
SINGLE_P99_GOAL_MS: Final = 40.0
CLOSED_GOALS_PER_S: Final = {16: 400, 256: 1_200}
BULK_GOAL_PER_S: Final = 6_000
_PACKAGES: Final = ("millrace", "bytewax", "confluent-kafka", "fastapi", "granian", "msgspec", "psycopg")
_US_PER_S: Final = 1_000_000
_US_PER_MS: Final = 1_000
_MS_PER_S: Final = 1_000
_QUERIES: Final = queries("compose.proof.bench.http", "queries.sql")


@dataclass(frozen=True, slots=True, kw_only=True)
class HttpPlan:
    """What is measured."""

    rate: float
    seconds: float
    connections: int
    bulk_connections: int
    lines: int
    started_in_s: float


@dataclass(frozen=True, slots=True)
class _Spent:
    """Processor time of each process up to a moment, that of the load itself included."""

    at: float
    cpu_s: dict[str, float]

    @classmethod
    def so_far(cls, pids: Mapping[str, Sequence[int]]) -> _Spent:
        return cls(time.perf_counter(), cpu_seconds(pids) | {"load_generator": time.process_time()})


class HttpBench:
    """Measures one stack. Each part waits first until the attempts of the part before it have ended."""

    def __init__(self, stack: OwnStack, plan: HttpPlan, say: Callable[[str], None]) -> None:
        self._stack = stack
        self._plan = plan
        self._say = say
        self._addresses = stack.settings.addresses()
        self._port = self._addresses.ingress_port
        token = issue_token(KeyFolder(stack.home / "keys"), MERCHANT, ttl_s=limits.TOKEN_TTL_MAX_S)
        self._requests = Requests(LOOPBACK, self._port, token)

    def run(self) -> dict[str, Any]:
        """The whole result."""
        plan = self._plan
        found: dict[str, Any] = {
            "versions": {name: version(name) for name in _PACKAGES} | {"python": platform.python_version()},
            "machine": {"cpus": cpus(), "system": platform.platform()},
            "processes": {"owner": len(self._stack.pids("owner-")), "ingress": len(self._stack.pids("ingress-"))},
            "loop": {
                "single": "open: latency counts from the scheduled start",
                "closed": "closed: each connection sends its next command at once",
                "ndjson": "closed: each connection sends its next list at once; latency is that of one list",
            },
            "stack_started_in_s": plan.started_in_s,
            "idle_cpu_ms_per_s": self._idle(),
        }
        found["single"] = self._measured(f"single commands, {plan.rate:g} per second", self._single)
        for connections in proof_limits.BENCH_CLOSED_CONNECTIONS:
            what = f"single commands over {connections} connections, as fast as they go"
            found[f"closed_{connections}"] = self._measured(what, partial(self._closed, connections))
        what = f"lists of {plan.lines} over {plan.bulk_connections} connections"
        found["ndjson"] = self._measured(what, self._bulk)
        found["memory_mb"] = memory_mb(self._pids())
        return found

    def _measured(self, what: str, measure: Callable[[Callable[[], object]], dict[str, Any]]) -> dict[str, Any]:
        """What a part found, with CPU by process since its warm-up, and the owners' batches around it."""
        self._say(what)
        world, pids = self._stack.world, self._pids()
        counted, spent = totals(world["ops"]), list[_Spent]()
        found = measure(lambda: spent.append(_Spent.so_far(pids)))
        before, after = spent
        commands = found["commands_sent"] - found["commands_sent_in_warm_up"]
        found["cpu_us_per_command"] = _us_per_command(before.cpu_s, after.cpu_s, commands)
        found["cpu_ms_per_command"] = by_service(found["cpu_us_per_command"], _US_PER_MS)
        found["cpus_busy"] = round((sum(after.cpu_s.values()) - sum(before.cpu_s.values())) / (after.at - before.at), 2)
        found["batches"] = batches(counted, totals(world["ops"]))
        open_attempts, drained_s = self._drain()
        found["attempts_open_at_end"], found["attempts_done_after_s"] = open_attempts, drained_s
        return found

    def _pids(self) -> dict[str, list[int]]:
        """The processes by name; the supervisor's children are all of them, so it is not among them itself."""
        return {e["name"]: [e["pid"]] for e in self._stack.world["services"] if e["kind"] != "supervisor"}

    def _idle(self) -> dict[str, float]:
        """What every service uses while nobody asks for anything: it is part of what a command seems to cost."""
        self._say("idle")
        time.sleep(proof_limits.BENCH_IDLE_SETTLE_S)
        pids = self._pids()
        before, began = cpu_seconds(pids), time.perf_counter()
        time.sleep(proof_limits.BENCH_IDLE_S)
        after, took = cpu_seconds(pids), time.perf_counter() - began
        return by_service({name: (after[name] - before[name]) / took for name in after}, 1 / _MS_PER_S)

    def _single(self, look: Callable[[], object]) -> dict[str, Any]:
        plan = self._plan
        load = SinglePlan(
            rate=plan.rate,
            seconds=plan.seconds,
            connections=plan.connections,
            warm_up_s=proof_limits.BENCH_SINGLE_WARM_UP_S,
            look=look,
            prefix=secrets.token_hex(4),
        )
        seen = asyncio.run(SingleLoad(self._requests, LOOPBACK, self._port, load).run())
        summary = seen.all.summary()
        return {
            "commands_per_s": round(seen.answered / seen.seconds, 1),
            "offered_per_s": plan.rate,
            "connections": plan.connections,
            **summary,
            "create": seen.create.summary(),
            "confirm": seen.confirm.summary(),
            "refused": seen.refused,
            "lost_connections": seen.lost_connections,
            "commands_sent": seen.sent,
            "commands_sent_in_warm_up": seen.sent_before,
            "goal": {"p99_ms_below": SINGLE_P99_GOAL_MS, "met": summary.get("p99_ms", 1e9) < SINGLE_P99_GOAL_MS},
            "where_the_time_went": stages(
                seen.trips, MERCHANT, self._addresses.postgres_reader_dsn, self._addresses.kafka
            ),
        }

    def _closed(self, connections: int, look: Callable[[], object]) -> dict[str, Any]:
        load = ClosedPlan(
            seconds=self._plan.seconds,
            connections=connections,
            warm_up_s=proof_limits.BENCH_CLOSED_WARM_UP_S,
            look=look,
            prefix=secrets.token_hex(4),
        )
        seen = asyncio.run(ClosedLoad(self._requests, LOOPBACK, self._port, load).run())
        per_s, goal = round(seen.committed / load.seconds, 1), CLOSED_GOALS_PER_S[connections]
        return {
            "commands_per_s": per_s,
            "connections": connections,
            **seen.latencies.summary(),
            "refused": seen.refused,
            "lost_connections": seen.lost_connections,
            "commands_sent": seen.sent,
            "commands_sent_in_warm_up": seen.sent_before,
            "goal": {"commands_per_s_at_least": goal, "met": per_s >= goal},
        }

    def _bulk(self, look: Callable[[], object]) -> dict[str, Any]:
        plan = self._plan
        load = BulkPlan(
            seconds=plan.seconds,
            connections=plan.bulk_connections,
            lines=plan.lines,
            warm_up_s=proof_limits.BENCH_WARM_UP_S,
            look=look,
            prefix=secrets.token_hex(4),
        )
        seen = asyncio.run(BulkLoad(self._requests, LOOPBACK, self._port, load).run())
        per_s = round(seen.committed / seen.seconds, 1)
        return {
            "commands_per_s": per_s,
            "connections": plan.bulk_connections,
            "lines_per_request": plan.lines,
            **seen.lists.summary(),
            "refused": seen.refused,
            "lost_connections": seen.lost_connections,
            "commands_sent": seen.sent,
            "commands_sent_in_warm_up": seen.sent_before,
            "goal": {"commands_per_s_at_least": BULK_GOAL_PER_S, "met": per_s >= BULK_GOAL_PER_S},
        }

    def _drain(self) -> tuple[int, float | None]:
        """How many attempts were open, and the seconds until all had ended (None: not within the bound)."""
        began = time.monotonic()
        with psycopg.connect(self._addresses.postgres_reader_dsn, autocommit=True) as connection:
            first = left = self._open_attempts(connection)
            while left and time.monotonic() - began < proof_limits.BENCH_DRAIN_WAIT_S:
                time.sleep(proof_limits.DEMO_SETTLE_POLL_MS / 1_000)
                left = self._open_attempts(connection)
        return first, None if left else round(time.monotonic() - began, 1)

    @staticmethod
    def _open_attempts(connection: psycopg.Connection) -> int:
        row = connection.execute(_QUERIES["open_attempts"]).fetchone()
        return row[0] if row else 0


def _us_per_command(before: dict[str, float], after: dict[str, float], commands: int) -> dict[str, float]:
    """CPU microseconds per command by process, the heaviest first."""
    used = {name: (after[name] - before[name]) * _US_PER_S for name in after}
    ordered = sorted(used.items(), key=lambda item: -item[1])
    return {name: round(spent / max(1, commands), 1) for name, spent in ordered}


def by_service(used: Mapping[str, float], unit: float) -> dict[str, float]:
    """What single processes used as sums of their services, in a unit, the heaviest first, with their total."""
    sums: defaultdict[str, float] = defaultdict(float)
    for name, spent in used.items():
        service, _, instance = name.rpartition("-")
        sums[service if instance.isdecimal() else name] += spent / unit
    ordered = sorted(sums.items(), key=lambda item: -item[1])
    return {"total": round(sum(sums.values()), 3), **{name: round(spent, 3) for name, spent in ordered}}

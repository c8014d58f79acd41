"""What the burst of one tenant costs the others: the latency of their commands alone, and beside it, by turns.

A real owner process works on the command topic. The loop is open: commands leave on schedule, and latency counts from
the schedule to the answer. All are tenants of one partition. The noisy one has a client of its own, as tenants have, in
a process of its own: of one client's commands each would wait for what it sent before.
"""

from __future__ import annotations

import base64
import itertools
import time
from contextlib import closing
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import psycopg
from msgspec import structs

from compose.proof import limits
from compose.proof.bench.goals import at_most
from compose.proof.bench.owner.latency import REPLY_TO, Answers, summary, wait_for
from compose.proof.bench.tenancy.load import (
    MADE,
    command,
    create,
    send,
    tenancy_owner,
    tenant_of,
    wait_until,
)
from compose.proof.bench.tenancy.noisy_client import NoisyClient, sent_on_time
from compose.stack.errors import StackError
from schemas import topics
from schemas.tenancy.operations import resource_of, scope_of
from schemas.tenancy.service import SERVICE
from sinks import limits as sinks_limits
from sinks.kafka.delivery import command_letter

if TYPE_CHECKING:
    from collections.abc import Sequence

    from compose.proof.bench.tenancy.noisy_client import Timed
    from compose.proof.bench.world import World
    from sinks.kafka.delivery import Letter

_RATIO_GOAL: Final = 1.5
_NOTICED: Final = "select caller, share_percent from noisy_caller"
_MS: Final = 1_000
_SEALED: Final = base64.b64encode(b"\0" * 7 + b"\1" + b"sealed").decode()


def measure_fairness(world: World, dsn: str, rate: float, seconds: float, tenants: int = 8) -> dict[str, Any]:
    """The latency of tenants with little to do, alone and beside one of the same partition with fifty times as much.

    ``rate`` is of each tenant, in commands a second; ``seconds`` are measured with the noisy one and as many without,
    in rounds by turns. It is more work for every server, too: where commands leave late, the machine is short of
    processor time, and the ratio tells of that rather than of turns.
    """
    quiet, noisy = _neighbours(tenants)
    kafka = world.signer()
    with tenancy_owner(world, dsn), psycopg.connect(dsn, autocommit=True) as connection:
        keys = [*quiet, noisy]
        send(world, [command_letter(kafka, create(key)) for key in keys])
        wait_until(connection, MADE, (), len(keys))
        with closing(_Clients(world, quiet, noisy, rate)) as clients:
            # the noisy one sends, too: else Kafka's JVM compiles for its load while the others are measured
            clients.measure(limits.BENCH_FAIRNESS_WARM_UP_S, is_noisy=True)
            each_s = seconds / limits.BENCH_FAIRNESS_ROUNDS
            rounds = [
                (clients.measure(each_s, is_noisy=False), clients.measure(each_s, is_noisy=True))
                for _ in range(limits.BENCH_FAIRNESS_ROUNDS)
            ]
        noticed = connection.execute(_NOTICED).fetchall()
    alone, beside = (_of_all(turns, rate * tenants) for turns in zip(*rounds, strict=True))
    return {
        "alone": alone,
        "beside_noisy": beside,
        **at_most("p99_ratio", beside["p99_ms"] / alone["p99_ms"], _RATIO_GOAL),
        "noticed": dict(noticed),
        "noisy_is": scope_of(tenant_of(noisy)),
    }


class _Turn(NamedTuple):
    """One measurement, in seconds by command."""

    latencies_s: list[float]
    late_s: list[float]


def _of_all(turns: tuple[_Turn, ...], rate: float) -> dict[str, Any]:
    latencies_s = [each for turn in turns for each in turn.latencies_s]
    late_s = sorted(each for turn in turns for each in turn.late_s)
    return summary(latencies_s, rate) | {"sent_late_p99_ms": round(late_s[len(late_s) * 99 // 100] * _MS, 2)}


class _Clients:
    """Two of them, and who hears the answers; connected once, as a connection in the midst would be somebody's wait."""

    def __init__(self, world: World, quiet: Sequence[str], noisy: str, rate: float) -> None:
        self._kafka = world.signer()
        self._quiet, self._noisy = [scope_of(tenant_of(key)) for key in quiet], scope_of(tenant_of(noisy))
        self._rate = rate
        self._client = world.producer(linger_ms=0)
        lingering = {"linger.ms": limits.BENCH_NOISY_LINGER_MS}
        self._noisy_client = NoisyClient(world.addresses.kafka.producer("bench-noisy", **lingering))
        self._ids = itertools.count(1)
        self._answers = Answers(world)
        self._answers.start()

    def close(self) -> None:
        """Hears nothing more."""
        self._noisy_client.close()
        self._answers.over.set()
        self._answers.join()

    def measure(self, seconds: float, *, is_noisy: bool) -> _Turn:
        """What the quiet ones waited for so long a time."""
        ours, times = self._rate * len(self._quiet), self._rate * limits.BENCH_NOISY_TIMES if is_noisy else 0.0
        due = {next(self._ids): n / ours for n in range(int(ours * seconds))}
        timed = [(at, self._write(self._quiet[n % len(self._quiet)], n)) for n, at in due.items()]
        of_noisy = [
            (n / times, self._write(self._noisy, next(self._ids), is_awaited=False))
            for n in range(int(times * seconds))
        ]
        # once all are signed and on their way: a schedule of before would be late from the beginning
        began = time.perf_counter() + limits.BENCH_NOISY_HEAD_START_S
        self._noisy_client.begin(began, of_noisy)
        late = self._send(began, timed)
        self._noisy_client.finish()
        wait_for(self._answers, set(due))
        return _Turn([self._answers.arrived.get(n, float("inf")) - began - at for n, at in due.items()], late)

    def _send(self, began: float, timed: Sequence[Timed]) -> list[float]:
        """Each at its time; returns by how many seconds each left late. Raises StackError."""
        late = sent_on_time(self._client, began, timed)
        if self._client.flush(sinks_limits.KAFKA_DELIVERY_TIMEOUT_MS / _MS):
            raise StackError("Kafka did not take the benchmark's commands; see 'millrace logs kafka'")
        return late

    def _write(self, scope: str, number: int, *, is_awaited: bool = True) -> Letter:
        key = f"write-{number}"
        payload = {"resource_id": resource_of(scope, key), "key_version": 1, "size": 2, "sealed": _SEALED}
        asked = command("create_resource", key, scope, payload)
        if is_awaited:
            asked = structs.replace(asked, reply_to=REPLY_TO, reply_id=number)
        topic, value, tenant, partition, headers = command_letter(self._kafka, asked)
        return self._kafka.topic(topic), value, tenant, partition, headers


def _neighbours(count: int) -> tuple[list[str], str]:
    """Keys of tenants of one partition: those with little to do, and the one with much."""
    found = (f"neighbour-{n}" for n in range(10**6))
    partition = topics.partition_for(tenant_of("neighbour-0"), SERVICE.partitions)
    mine = [
        next(k for k in found if topics.partition_for(tenant_of(k), SERVICE.partitions) == partition)
        for _ in range(count + 1)
    ]
    return mine[1:], mine[0]

"""Tenants in bulk, and one that is noisy: how fast tenants are made, and what the burst of one costs the others.

A real owner process works on the command topic. The loop of the others is open: their commands leave on schedule, and
latency counts from the schedule to the answer, with and without a tenant that sends fifty times as much.
"""

from __future__ import annotations

import base64
import os
import subprocess
import sys
import tempfile
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final

import psycopg

from compose.proof import limits as proof_limits
from compose.proof.bench.goals import at_least, at_most
from compose.proof.bench.owner.latency import Answers, summary, wait_for
from compose.stack.errors import StackError
from compose.stack.ports import PortLeases
from reconciliation.tenancy.tenant_stores import newest
from schemas import records, topics
from schemas.avro import codec
from schemas.operation import Named
from schemas.senders import INGRESS, Headers
from schemas.tenancy import limits as tenancy_limits
from schemas.tenancy.operations import OPERATIONS, resource_of, scope_of
from schemas.tenancy.service import SERVICE
from sinks import limits as sinks_limits
from sinks.tenancy import contexts

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from confluent_kafka import Producer

    from compose.proof.bench.world import World
    from sinks.kafka.connection import KafkaConnection

STAFF: Final = "m_bench"
_REPLY_TO: Final = topics.RESULTS_PARTITIONS - 1
_BY_NAME: Final = {operation.name: operation for operation in OPERATIONS}
_POSITION: Final = "insert into partition_owner (topic, partition, next_offset) values (%s, %s, %s)"
_OWNED: Final = "select count(*) from partition_owner where topic = %s and owner_id <> ''"
_MADE: Final = "select count(*) from tenant"
_MADE_GOAL: Final = 500
_RATIO_GOAL: Final = 1.5
_PAGES: Final = 200  # of the list that are read and timed
Record = tuple[str, bytes, Headers]


@contextmanager
def process(world: World, dsn: str, name: str) -> Iterator[None]:
    """A process of the platform on that database; killed at the end."""
    ports = PortLeases()
    given = {"MILLRACE_POSTGRES_DSN": dsn, "MILLRACE_OPS_PORT": str(ports.take_any())}
    command = [sys.executable, "-m", "compose.proof.bench.new_database", name, "--instance", "0"]
    with tempfile.TemporaryFile() as log:
        environment = os.environ | world.settings.environment() | given
        started = subprocess.Popen(command, env=environment, stdout=log, stderr=subprocess.STDOUT)
        try:
            yield
        finally:
            started.kill()
            started.wait()
            ports.close()


@contextmanager
def tenancy_owner(world: World, dsn: str) -> Iterator[None]:
    """One owner of all partitions of tenants, from where the topic ends now."""
    contexts.believe(dsn, world.settings.the_home().path / "keys")
    with psycopg.connect(dsn, autocommit=True) as connection:
        for partition, offset in enumerate(world.ends(SERVICE.commands_topic, SERVICE.partitions)):
            connection.execute(_POSITION, (SERVICE.commands_topic, partition, offset))
        with process(world, dsn, "tenancy_owner"):
            wait_until(connection, _OWNED, (SERVICE.commands_topic,), SERVICE.partitions)
            yield


def wait_until(connection: psycopg.Connection[Any], query: str, given: tuple[Any, ...], wanted: int) -> None:
    """Until the query gives so many. Raises StackError."""
    deadline = time.monotonic() + proof_limits.BENCH_TENANCY_WAIT_S
    while (found := connection.execute(query.encode(), given).fetchone()) and found[0] < wanted:
        if time.monotonic() > deadline:
            raise StackError(f"the owner of tenants came to {found[0]} of {wanted} in time: see 'millrace logs'")
        time.sleep(sinks_limits.HEALTH_POLL_INTERVAL_S)


def measure_provisioning(world: World, dsn: str, tenants: int) -> dict[str, Any]:
    """Tenants a second, from the first command in Kafka to the last tenant served; and pages of the list of all."""
    kafka = world.signer()
    made = [signed(kafka, create(f"tenant-{n}")) for n in range(tenants)]
    with tenancy_owner(world, dsn), psycopg.connect(dsn, autocommit=True) as connection:
        began = time.monotonic()
        send(world, [(began, one) for one in made])
        wait_until(connection, _MADE, (), tenants)
        seconds = time.monotonic() - began
        pages = _pages(connection)
    return {
        "tenants": tenants,
        **at_least("tenants_per_s", round(tenants / seconds), _MADE_GOAL),
        "list_pages": len(pages),
        "list_page_p99_ms": round(sorted(pages)[len(pages) * 99 // 100] * 1_000, 2),
    }


def _pages(connection: psycopg.Connection[Any]) -> list[float]:
    """The seconds that each page took, one after the other."""
    found: list[float] = []
    after = ""
    while len(found) < _PAGES:
        began = time.perf_counter()
        rows = newest(connection, after)
        found.append(time.perf_counter() - began)
        if len(rows) < tenancy_limits.TENANTS_LISTED_MAX:
            break
        after = rows[-1]["tenant_id"]
    return found


def measure_fairness(world: World, dsn: str, rate: float, seconds: float, tenants: int = 8) -> dict[str, Any]:
    """The latency of tenants with little to do, alone and beside one of the same partition with fifty times as much.

    ``rate`` is of each tenant, in commands a second. The noisy one is more work for every server, too: where commands
    leave late, the machine is short of processor time, and the ratio tells of that rather than of turns.
    """
    quiet, noisy = _neighbours(tenants)
    kafka = world.signer()
    with tenancy_owner(world, dsn), psycopg.connect(dsn, autocommit=True) as connection:
        keys = [*quiet, noisy]
        send(world, [(time.monotonic(), signed(kafka, create(key))) for key in keys])
        wait_until(connection, _MADE, (), len(keys))
        with _line(world) as line:
            # the noisy one sends, too: else Kafka's JVM compiles for its load while the others are measured
            _latency(world, line, quiet, rate, proof_limits.BENCH_WARM_UP_S, noisy)
            alone = _latency(world, line, quiet, rate, seconds)
            beside = _latency(world, line, quiet, rate, seconds, noisy)
        noticed = connection.execute("select caller, share_percent from noisy_caller").fetchall()
    return {
        "alone": alone,
        "beside_noisy": beside,
        **at_most("p99_ratio", beside["p99_ms"] / alone["p99_ms"], _RATIO_GOAL),
        "noticed": dict(noticed),
        "noisy_is": scope_of(tenant_of(noisy)),
    }


@contextmanager
def _line(world: World) -> Iterator[tuple[Producer, Answers]]:
    """Connected once for all measurements: a connection in the midst of one would be a wait of somebody."""
    answers = Answers(world)
    answers.start()
    try:
        yield world.producer(linger_ms=0), answers
    finally:
        answers.over.set()
        answers.join()


def _latency(
    world: World, line: tuple[Producer, Answers], quiet: Sequence[str], rate: float, seconds: float, noisy: str = ""
) -> dict[str, Any]:
    producer, answers = line
    kafka, run, before = world.signer(), time.monotonic_ns(), max(answers.arrived, default=0)
    each = 1 / (rate * len(quiet))
    answered = {before + n: n * each for n in range(1, int(rate * seconds) * len(quiet) + 1)}
    timed = [(at, signed(kafka, _write(quiet[n % len(quiet)], f"{run}-{n}", reply_id=n))) for n, at in answered.items()]
    if noisy:
        ours = rate * proof_limits.BENCH_NOISY_TIMES
        timed += [(n / ours, signed(kafka, _write(noisy, f"{run}-noisy-{n}"))) for n in range(int(ours * seconds))]
        timed.sort(key=lambda one: one[0])
    began = time.perf_counter()  # once all are signed: a schedule that begins before would be late from the beginning
    late = send(world, [(began + at, one) for at, one in timed], time.perf_counter, producer)
    wait_for(answers, set(answered))
    found = summary(
        [answers.arrived.get(n, float("inf")) - began - at for n, at in answered.items()], rate * len(quiet)
    )
    return found | {"sent_late_p99_ms": round(sorted(late)[len(late) * 99 // 100] * 1_000, 2)}


def send(
    world: World,
    timed: Sequence[tuple[float, Record]],
    clock: Any = time.monotonic,
    producer: Producer | None = None,
) -> list[float]:
    """Records into the command topic, each at its time; returns by how many seconds each left late."""
    producer = producer or world.producer(linger_ms=0)
    topic, late = world.addresses.kafka.topic(SERVICE.commands_topic), list[float]()
    for at, (key, value, headers) in timed:
        while (left := at - clock()) > 0:
            time.sleep(left)
        late.append(-left)
        while True:
            try:
                producer.produce(topic, value, key, headers=headers)
            except BufferError:
                producer.poll(0.05)
            else:
                break
        producer.poll(0)
    if producer.flush(sinks_limits.KAFKA_DELIVERY_TIMEOUT_MS / 1_000):
        raise StackError("Kafka did not take the benchmark's commands; see 'millrace logs kafka'")
    return late


def signed(kafka: KafkaConnection, command: records.Command) -> Record:
    """The record of a command: key, value, headers."""
    value = codec.encode_command(command)
    return (
        command.aggregate_key,
        value,
        kafka.signed((INGRESS,), SERVICE.commands_topic, command.aggregate_key, value),
    )


def tenant_of(key: str) -> str:
    """The tenant that the creation under this idempotency key makes."""
    return create(key).aggregate_key


def _neighbours(count: int) -> tuple[list[str], str]:
    """Keys of tenants of one partition: those with little to do, and the one with much."""
    found = (f"neighbour-{n}" for n in range(10**6))
    partition = topics.partition_for(tenant_of("neighbour-0"), SERVICE.partitions)
    mine = [
        next(k for k in found if topics.partition_for(tenant_of(k), SERVICE.partitions) == partition)
        for _ in range(count + 1)
    ]
    return mine[1:], mine[0]


def create(key: str) -> records.Command:
    """The command that makes a tenant."""
    return command("create_tenant", key, STAFF, {"name": key, "placement": {"mode": "pooled"}})


def _write(tenant_key: str, key: str, reply_id: int = 0) -> records.Command:
    scope = scope_of(tenant_of(tenant_key))
    sealed = base64.b64encode(b"\0" * 7 + b"\1" + b"sealed").decode()
    payload = {"resource_id": resource_of(scope, key), "key_version": 1, "size": 2, "sealed": sealed}
    return command("create_resource", key, scope, payload, reply_id)


def command(
    name: str, key: str, scope: str, payload: dict[str, Any], reply_id: int = 0, path_id: str | None = None
) -> records.Command:
    """As an ingress would write it."""
    operation = _BY_NAME[name]
    normal, wrong = operation.normalize(payload)
    if wrong:
        raise ValueError(f"the benchmark made a command that is not valid: {wrong}")
    aggregate_key = operation.aggregate_key(Named(path_id, normal, scope, key))
    return records.Command(
        operation=name,
        request_id=f"req_{key}",
        idempotency_key=key,
        aggregate_key=aggregate_key,
        expected_version=None,
        scope=scope,
        request_hash=operation.request_hash(aggregate_key, normal),
        trace_id="0" * 32,
        issued_at=time.time_ns() // 1_000,
        deadline_at=0,
        reply_to=_REPLY_TO if reply_id else -1,
        reply_id=reply_id,
        payload=normal,
    )

"""Real servers for a benchmark: an embedded stack of its own, a database per run, and the pre-filled command topic."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit, urlunsplit

import psycopg
from confluent_kafka import Consumer, Producer, TopicPartition
from psycopg import sql

from compose.proof.bench.mix import Signed
from compose.settings.addresses import Addresses
from compose.settings.settings import Settings
from compose.stack.errors import StackError
from compose.supervise import launch
from compose.supervise.state import read_state
from schemas import senders
from schemas.payments import topics
from sinks import limits
from sinks.kafka.connection import KafkaConnection
from sinks.kafka.topics import ensure_topics
from sinks.postgres.migrate import migrate

HELD: Final = "held until every owner of the benchmark is there"


@dataclass(frozen=True, slots=True)
class World:
    """The servers of one benchmark."""

    settings: Settings
    addresses: Addresses

    def database(self, name: str) -> str:
        """A new, migrated, empty database; returns the superuser's DSN of it."""
        with psycopg.connect(self.addresses.postgres_superuser_dsn, autocommit=True) as connection:
            connection.execute(sql.SQL("drop database if exists {} with (force)").format(sql.Identifier(name)))
            connection.execute(sql.SQL("create database {}").format(sql.Identifier(name)))
        dsn = urlunsplit(urlsplit(self.addresses.postgres_superuser_dsn)._replace(path=f"/{name}"))
        migrate(dsn, self.settings.role_passwords())
        return dsn

    def drop(self, name: str) -> None:
        """The database is gone, whoever is connected."""
        with psycopg.connect(self.addresses.postgres_superuser_dsn, autocommit=True) as connection:
            connection.execute(sql.SQL("drop database if exists {} with (force)").format(sql.Identifier(name)))

    def producer(self, linger_ms: int = 20) -> Producer:
        """A producer as durable as ours; lingering makes large batches, for filling a topic."""
        return Producer(self.addresses.kafka.producer("bench", **{"linger.ms": linger_ms}))

    def signer(self) -> KafkaConnection:
        """Kafka, for whoever signs as each of our own processes does."""
        return self.settings.kafka_as(*senders.ROLES)

    def ends(self, topic: str, partitions: int) -> list[int]:
        """The end offset of every partition."""
        consumer = Consumer(self.addresses.kafka.consumer("bench-ends", "bench-ends"))
        try:
            places = [TopicPartition(self.addresses.kafka.topic(topic), p) for p in range(partitions)]
            return [consumer.get_watermark_offsets(p, timeout=limits.KAFKA_ADMIN_TIMEOUT_S)[1] for p in places]
        finally:
            consumer.close()

    def command_ends(self) -> list[int]:
        """Where the command topic ends now."""
        return self.ends(topics.COMMANDS, topics.PARTITIONS)

    def server_pids(self) -> dict[str, int]:
        """The pid of every embedded server by name; external servers are not in it."""
        state = read_state(self.settings.the_home())
        return {} if state is None else {p.name: p.pid for p in state.processes if p.kind == "server" and p.pid}


@contextmanager
def bench_world(home: Path | None) -> Iterator[World]:
    """Servers that end with the benchmark, in a temporary home; or those that already run in ``home``, left alone."""
    if home is not None:
        settings = Settings(home=home)
        yield _prepared(settings)
        return
    folder = Path(tempfile.mkdtemp(prefix="millrace-bench-"))
    settings = Settings(home=folder)
    try:
        launch.up(settings, servers_only=True, tied=True)
        yield _prepared(settings)
    finally:
        launch.down(settings)
        shutil.rmtree(folder, ignore_errors=True)


def _prepared(settings: Settings) -> World:
    world = World(settings, settings.addresses())
    ensure_topics(world.addresses.kafka)
    return world


def fill(world: World, records: Sequence[Signed]) -> tuple[list[int], list[int]]:
    """Appends records to the command topic; returns its ends before and after."""
    before = world.command_ends()
    producer = world.producer()
    for partition, key, value, headers in records:
        while True:
            try:
                producer.produce(world.addresses.kafka.topic(topics.COMMANDS), value, key, partition, headers=headers)
            except BufferError:
                producer.poll(0.05)
            else:
                break
    if producer.flush(limits.KAFKA_DELIVERY_TIMEOUT_MS / 1_000):
        raise StackError("Kafka did not take the benchmark's commands; see 'millrace logs kafka'")
    return before, world.command_ends()


def hold_partitions(connection: psycopg.Connection[Any], starts: Sequence[int], *, held: bool) -> None:
    """Every partition starts at this offset; held ones are assigned to owners but not read yet."""
    for partition, offset in enumerate(starts):
        connection.execute(
            "insert into partition_owner (topic, partition, next_offset, halted) values (%s, %s, %s, %s)",
            (topics.COMMANDS, partition, offset, HELD if held else None),
        )


def release_partitions(connection: psycopg.Connection[Any]) -> None:
    """Owners may start; each notices within a second."""
    connection.execute("update partition_owner set halted = null")

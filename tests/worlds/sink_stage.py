"""A database, a ClickHouse database, topics and a processor of a test's own, on the session's servers."""

from __future__ import annotations

import copy
import os
import socket
import subprocess
import sys
import threading
import uuid
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit, urlunsplit

import httpx
import psycopg
from confluent_kafka.admin import NewTopic

from reconciliation.check.run import CheckSettings, Finding, Report, run_check
from reconciliation.contract.checked_service import CheckedService
from reconciliation.replay.run import ReplayReport, ReplaySettings, run_replay
from reconciliation.replay.source import Start
from schemas.payments import topics
from sinks import limits
from sinks.clickhouse.connection import ClickHouseConnection
from sinks.clickhouse.payments.service import SINKS
from sinks.clickhouse.sink import Sink, SinkSettings
from sinks.kafka.admin import KafkaAdmin
from tests import asked
from tests.eventually import eventually, patient
from tests.migrated import clone_database
from tests.worlds.committed_world import CommittedWorld

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from pathlib import Path

    from clickhouse_connect.driver.client import Client

    from compose.settings.settings import Settings
    from sinks.streams.intake import Halt


class Recorder:
    """Remembers what a sink says."""

    def __init__(self) -> None:
        self.events = 0
        self.recoveries: list[tuple[int, int]] = []
        self.failures: list[Exception] = []
        self.halts: dict[int, Halt] = {}
        self.stood_by = threading.Event()
        self.fed = threading.Event()

    def inserted(self, events: int, rows: int, seconds: float) -> None:
        self.events += events

    def recovered(self, plan_id: int, missing_rows: int) -> None:
        self.recoveries.append((plan_id, missing_rows))

    def failed(self, error: Exception, retry_in_s: float) -> None:
        self.failures.append(error)

    def halted(self, halts: Mapping[int, Halt]) -> None:
        self.halts = dict(halts)

    def standing_by(self) -> None:
        self.stood_by.set()

    def feeding(self) -> None:
        self.fed.set()


@dataclass
class Stage:
    """One isolated set of stores, with a history of payments."""

    settings: Settings
    database: str
    suffix: str
    clickhouse_database: str
    world: CommittedWorld
    processor_url: str = "http://127.0.0.1:9"

    @property
    def kafka(self) -> Any:
        return self.settings.addresses().kafka

    def dsn(self, role: str | None = None) -> str:
        """The DSN of a role, or of the superuser, in this stage's own database."""
        addresses = self.settings.addresses()
        dsn = addresses.postgres_superuser_dsn if role is None else addresses.postgres_dsns[role]
        return urlunsplit(urlsplit(dsn)._replace(path=f"/{self.database}"))

    @property
    def clickhouse(self) -> ClickHouseConnection:
        url = urlsplit(self.settings.addresses().clickhouse_url)
        return ClickHouseConnection(url=urlunsplit(url._replace(path=f"/{self.clickhouse_database}")))

    def sql(self, *statements: str) -> None:
        """Runs statements as the superuser with every trigger off: what tampering would do."""
        with psycopg.connect(self.dsn(), autocommit=True) as connection:
            connection.execute("set session_replication_role = replica")
            for statement in statements:
                connection.execute(statement.encode())

    def value(self, query: str) -> Any:
        row = asked.record(self.dsn(), query.replace("%", "%%").encode())
        return next(iter(row.values())) if row else None

    @cached_property
    def _asking(self) -> Client:
        """The test's own: to make one costs as much as five questions."""
        return self.clickhouse.client()

    def clickhouse_rows(self, query: str) -> list[tuple[Any, ...]]:
        return [tuple(row) for row in self._asking.query(query).result_rows]

    def clickhouse_command(self, statement: str) -> None:
        self._asking.command(statement)

    def end(self) -> None:
        """Closes its own connection, if it has one."""
        if "_asking" in vars(self):
            self._asking.close()

    def store_and_publish(self, **options: int) -> None:
        """What is new in the world is committed, and then published as an owner would."""
        with psycopg.connect(self.dsn(), autocommit=True) as connection:
            self.world.store(connection)
        self.world.publish(self.kafka, **options)

    def sink_settings(self, owner_id: str = "sink-1") -> SinkSettings:
        return SinkSettings(
            sink=SINKS[0],
            kafka=self.kafka,
            postgres_dsn=self.dsn("millrace_sink"),
            clickhouse=self.clickhouse,
            topic=self.world.events_topic,
            partitions=self.world.partitions,
            owner_id=owner_id,
        )

    @contextmanager
    def sink(
        self, owner_id: str = "sink-1", fail_point: Callable[[str], None] = lambda _: None
    ) -> Iterator[tuple[Sink, Recorder]]:
        """A sink in a thread; it is stopped at the end and must not have died."""
        recorder, died = Recorder(), []
        sink = Sink(self.sink_settings(owner_id), recorder, fail_point)

        def run() -> None:
            try:
                sink.run()
            except BaseException as error:  # noqa: BLE001 - shown by the test
                died.append(error)

        thread = threading.Thread(target=run)
        thread.start()
        try:
            yield sink, recorder
        finally:
            sink.stop()
            thread.join(timeout=patient(30))
        assert not died, died
        assert not thread.is_alive()

    def drain(self) -> Recorder:
        """Runs a sink until ClickHouse holds everything that was published."""
        with self.sink(f"sink-{uuid.uuid4().hex[:6]}") as (_, recorder):
            eventually(self.is_caught_up, within_s=30, what="the sink catches up")
        return recorder

    def is_caught_up(self) -> bool:
        query = "select coalesce(sum(last_seq), 0) from stream_position where follower = 'clickhouse'"
        query += f" and topic = '{self.world.events_topic}'"
        return bool(self.value(query) == len(self.world.commits))

    def counts(self) -> dict[str, tuple[int, int]]:
        """Rows, and distinct rows, of every table: equal pairs mean that nothing is there twice."""
        keys = {
            "events": "kafka_partition, seq",
            "ledger_lines": "txn_id, line",
            "payment_intents": "kafka_partition, seq",
            "processor_attempts": "kafka_partition, seq, attempt",
            "refunds": "kafka_partition, seq",
            "disputes": "kafka_partition, seq",
            "merchant_accounts": "kafka_partition, seq",
            "payouts": "kafka_partition, seq",
            "metered_payments": "kafka_partition, seq, dimension, subject",
        }
        queries = {table: f"select count(), uniqExact({key}) from {table}" for table, key in keys.items()}
        return {table: self.clickhouse_rows(query)[0] for table, query in queries.items()}  # type: ignore[misc]

    def expected_counts(self) -> dict[str, tuple[int, int]]:
        commits = self.world.commits
        found = {
            "events": len(commits),
            "ledger_lines": sum(len(txn.entries) for c in commits for txn in c.txns),
            "payment_intents": sum(c.intent is not None for c in commits),
            "processor_attempts": sum(len(c.attempts) for c in commits),
            "refunds": sum(c.refund is not None for c in commits),
            "disputes": sum(c.dispute is not None for c in commits),
            "merchant_accounts": sum(c.account is not None for c in commits),
            "payouts": sum(c.payout is not None for c in commits),
            "metered_payments": len(commits) + sum(any(t.kind == "capture" for t in c.txns) for c in commits),
        }
        return {table: (n, n) for table, n in found.items()}

    def checked(self) -> CheckedService:
        return CheckedService(
            service="payments",
            commands_topic=self.world.commands_topic,
            events_topic=self.world.events_topic,
            partitions=self.world.partitions,
            sink=SINKS[0],
        )

    def check_settings(self, **options: Any) -> CheckSettings:
        return CheckSettings(
            postgres_dsn=self.dsn("millrace_operator"),
            kafka=self.kafka,
            clickhouse=self.clickhouse,
            processor_urls={"sim": self.processor_url},  # as the committed world names it
            services=(self.checked(),),
            **options,
        )

    def check(self, *only: str, **options: Any) -> Report:
        return run_check(self.check_settings(**options), only=only)

    def finding(self, identity: str, **options: Any) -> Finding:
        return self.check(identity, **options).invariants[0]

    def replay(self, target: str, start: Start | None = None, source: Any = "kafka", **options: Any) -> ReplayReport:
        settings = ReplaySettings(
            postgres_dsn=self.dsn("millrace_operator"),
            kafka=self.kafka,
            clickhouse=self.clickhouse,
            of=self.checked(),
            source=source,
        )
        return run_replay(settings, target, start or Start(), **options)


def _superuser(settings: Settings) -> psycopg.Connection:
    return psycopg.connect(settings.addresses().postgres_superuser_dsn, autocommit=True)


@contextmanager
def new_stage(settings: Settings, *, seed: int = 1, payments: int = 0) -> Iterator[Stage]:
    """Fresh stores with a history of that many payments, not yet stored."""
    suffix = uuid.uuid4().hex[:10]
    world = CommittedWorld(
        seed=seed, events_topic=f"events.{suffix}.v1", commands_topic=f"commands.{suffix}.v1"
    ).payments_made(payments)
    stage = Stage(settings, f"stage_{suffix}", suffix, f"stage_{suffix}", world)
    clone_database(settings.addresses().postgres_superuser_dsn, stage.database)
    with _clickhouse_and_topics(stage):
        try:
            yield stage
        finally:
            stage.end()


@contextmanager
def _clickhouse_and_topics(stage: Stage) -> Iterator[None]:
    server = ClickHouseConnection(url=stage.settings.addresses().clickhouse_url).client()
    server.command(f"create database {stage.clickhouse_database}")
    admin = KafkaAdmin(stage.kafka.admin())
    names = [
        NewTopic(stage.kafka.topic(name), topics.PARTITIONS)
        for name in (stage.world.events_topic, stage.world.commands_topic)
    ]
    for made in admin.create_topics(names, request_timeout=limits.KAFKA_TOPICS_TIMEOUT_S).values():
        made.result(limits.KAFKA_TOPICS_TIMEOUT_S)
    try:
        yield
    finally:
        server.command(f"drop database {stage.clickhouse_database}")
        server.close()
        for gone in admin.delete_topics([t.topic for t in names]).values():
            gone.result(limits.KAFKA_TOPICS_TIMEOUT_S)


@contextmanager
def cloned(stage: Stage) -> Iterator[Stage]:
    """The same stage with a copy of its Postgres database, so that a test may tamper with it."""
    name = f"clone_{uuid.uuid4().hex[:10]}"
    asked.end()  # nobody may use a database while another is made from it
    with _superuser(stage.settings) as connection:
        # files are copied, not logged page by page: a third of the CPU, and no wait where fsync is off
        connection.execute(f"create database {name} template {stage.database} strategy file_copy".encode())
    copied = replace(stage, database=name, world=copy.deepcopy(stage.world))
    try:
        yield copied
    finally:
        copied.end()
        with _superuser(stage.settings) as connection:
            connection.execute(f"drop database {name} with (force)".encode())


@contextmanager
def processor(stage: Stage, folder: Path) -> Iterator[str]:
    """A processor simulator of its own that carried out what the world says was carried out; gives its address."""
    port = free_port()
    command = [sys.executable, "-m", "compose.simulator", "--folder", str(folder), "--port", str(port)]
    process = subprocess.Popen(command, env=dict(os.environ))
    url = f"http://127.0.0.1:{port}"
    try:
        with httpx.Client(base_url=url, timeout=patient(20)) as http:
            eventually(lambda: _is_ready(http), within_s=20, what="the simulator is ready")
            for attempt in stage.world.carried_out:
                body: dict[str, object] = {
                    "kind": attempt.kind,
                    "reference": attempt.intent_id,
                    "amount": attempt.amount,
                    "currency": attempt.currency,
                }
                if attempt.parent_ref is None:
                    body["token"] = attempt.payment_method
                else:
                    body |= {"parent": attempt.parent_ref, "final": attempt.final}
                answer = http.post("/v1/operations", json=body, headers={"Idempotency-Key": attempt.operation_id})
                assert answer.is_success, answer.text
        yield url
    finally:
        process.terminate()
        process.wait(timeout=patient(20))


def free_port() -> int:
    """A port that was free just now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def _is_ready(http: httpx.Client) -> bool:
    try:
        return http.get("/readyz").is_success
    except httpx.TransportError:
        return False

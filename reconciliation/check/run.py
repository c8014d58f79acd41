"""Re-derives what must hold and counts what does not. Reads only; safe beside a live system, which shows 0 gaps.

One repeatable-read snapshot serves every invariant. What lies outside Postgres is compared up to a position, or in
an order of readings, at which both sides must agree; see cross_store and what services compare. An invariant that
cannot be evaluated counts as one gap: a check that did not run proves nothing.
"""

from __future__ import annotations

import time
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from itertools import islice
from typing import TYPE_CHECKING, Any

import psycopg
from confluent_kafka import KafkaException

from reconciliation import limits as reconciliation_limits
from reconciliation.check.acknowledged import acknowledged_violations
from reconciliation.check.cross_store import (
    CommonPosition,
    KafkaTotals,
    clickhouse_sums,
    common_position,
    differences,
    kafka_totals,
    outbox_ends,
    postgres_sums,
    sink_seqs,
)
from reconciliation.check.invariant import Invariant, invariants
from reconciliation.check.sinks import fed, standing_still
from reconciliation.contract.snapshot import Snapshot, snapshot
from reconciliation.services import ANALYSED, COMPARED_STORES, COMPUTED, OUTSIDE
from schemas import errors
from schemas.payments import limits as payments_limits

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping
    from pathlib import Path

    from reconciliation.contract.checked_service import CheckedService
    from reconciliation.contract.reconciled_service import Outside
    from reconciliation.contract.store_comparison import StoreComparison
    from sinks.clickhouse.connection import ClickHouseConnection
    from sinks.kafka.connection import KafkaConnection

Violation = dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckSettings:
    """Where everything is. ``postgres_dsn`` is of a role that reads all tables and may change none of them."""

    postgres_dsn: str = field(repr=False)
    kafka: KafkaConnection
    clickhouse: ClickHouseConnection
    processor_urls: Mapping[str, str]  # by name, of those that show their own book
    services: tuple[CheckedService, ...]  # the first is that of invariants which name no topic
    acknowledged: Path | None = None
    valkey_rules: Outside | None = None  # None: all processes are one user there, whose rights are not ours to say
    monitored_s: float | None = None  # how long this machine's stack has run the isolation monitor; None: it does not


@dataclass(slots=True, kw_only=True)
class Finding:
    """What became of one invariant."""

    id: str
    title: str
    severity: str
    owner: str
    gaps: int = 0
    sample: list[Violation] = field(default_factory=list)
    note: str = ""
    seconds: float = 0.0

    def tell(self, note: str) -> None:
        """Notes what was compared."""
        self.note = note


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """Every finding, and the sum of the gaps."""

    gaps: int
    invariants: list[Finding]
    checked_at: str

    def as_object(self) -> dict[str, Any]:
        """The report as the CLI prints it with --json."""
        return asdict(self)


def run_check(
    settings: CheckSettings,
    *,
    only: Iterable[str] = (),
    sample_max: int | None = reconciliation_limits.CHECK_SAMPLE_MAX,
    on_start: Callable[[Invariant], None] = lambda _: None,
) -> Report:
    """Evaluates the invariants, or some of them. Raises ValueError on an unknown id, Unavailable without Postgres."""
    wanted = set(only)
    chosen = [i for i in invariants() if not wanted or i.id in wanted]
    if unknown := wanted - {i.id for i in chosen}:
        raise ValueError(
            f"no invariant {', '.join(sorted(unknown))}; there are {', '.join(i.id for i in invariants())}"
        )
    now = datetime.now(UTC)
    outside = _read_before(settings, chosen)
    acknowledged_bytes = settings.acknowledged.stat().st_size if settings.acknowledged else 0
    try:
        seqs_before = {s.service: sink_seqs(settings.postgres_dsn, s) for s in settings.services if s.sink}
        with snapshot(
            settings.postgres_dsn,
            events_topic=settings.services[0].events_topic,
            commands_topic=settings.services[0].commands_topic,
            grace_s=payments_limits.ATTEMPT_LEASE_MS // 1_000,
            monitored_s=settings.monitored_s,
        ) as view:
            run = _Run(settings, view, _Before(outside, seqs_before, acknowledged_bytes))
            findings = [_evaluate(run, i, sample_max, on_start) for i in chosen]
    except psycopg.OperationalError as error:
        raise errors.Unavailable(f"Postgres does not answer: {str(error).strip()}") from error
    return Report(gaps=sum(f.gaps for f in findings), invariants=findings, checked_at=now.isoformat())


def _read_before(settings: CheckSettings, chosen: list[Invariant]) -> dict[str, Outside]:
    """The records of others that these invariants are compared with, read once before the snapshot."""
    outside = {one.id: OUTSIDE[one.id](settings.processor_urls) for one in chosen if one.id in OUTSIDE}
    for record in outside.values():
        record.read_before()
    return outside


def _evaluate(
    run: _Run, invariant: Invariant, sample_max: int | None, on_start: Callable[[Invariant], None]
) -> Finding:
    on_start(invariant)
    finding = Finding(id=invariant.id, title=invariant.title, severity=invariant.severity, owner=invariant.owner)
    began = time.monotonic()
    try:
        violations = run.violations(invariant, finding)
        finding.sample = list(islice(violations, sample_max))
        finding.gaps = len(finding.sample) + sum(1 for _ in violations)
    except (errors.PlatformError, psycopg.errors.DatabaseError, ValueError, OSError) as error:
        if isinstance(error, psycopg.OperationalError) and not isinstance(error, psycopg.errors.QueryCanceled):
            raise
        finding.gaps += 1
        finding.note = f"could not be evaluated: {str(error).strip().partition(chr(10))[0]}"
    finding.seconds = round(time.monotonic() - began, 3)
    return finding


@dataclass(frozen=True, slots=True)
class _Before:
    """What was read before the snapshot: everything in it must be in the snapshot too."""

    outside: Mapping[str, Outside]  # records of others, by the invariant that compares them
    sink_seqs: dict[str, dict[int, int]]  # by service
    acknowledged_bytes: int


class _Run:
    """One check under way: what several invariants share is read once."""

    def __init__(
        self,
        settings: CheckSettings,
        view: Snapshot,
        before: _Before,
    ) -> None:
        self._settings = settings
        self._view = view
        self._before = before
        self._services = {checked.service: checked for checked in settings.services}
        self._bounds: dict[str, CommonPosition] = {}
        self._kafka: dict[str, KafkaTotals] = {}

    def violations(self, invariant: Invariant, finding: Finding) -> Iterator[Violation]:
        """The violating rows, as they are found."""
        match invariant.id if invariant.source == "comparison" else "":
            case "":
                found = self._view.rows(invariant.sql)
            case computed if computed in COMPUTED or computed in ANALYSED:
                found = self._computed(computed, invariant.sql)
            case stores if stores in COMPARED_STORES:
                found = self._cross_store(COMPARED_STORES[stores], invariant.sql, finding)
            case outside if outside in self._before.outside:
                found = self._before.outside[outside].violations(self._view, invariant.sql, finding.tell)
            case "published":
                found = self._published(invariant.sql)
            case "sinks":
                found = self._sinks(invariant.sql)
            case "20":
                found = self._acknowledged(invariant.sql, finding)
            case "valkey_rules":
                found = self._valkey_rules(invariant.sql, finding)
            case other:
                raise ValueError(f"the invariant {other} has nothing to be compared with")
        return found

    def _computed(self, id_: str, sql: str) -> Iterator[Violation]:
        if id_ in COMPUTED:
            return COMPUTED[id_](self._view, sql)
        return ANALYSED[id_](self._view, self._settings.clickhouse.client(), sql)

    def _common(self, checked: CheckedService) -> CommonPosition:
        if checked.service not in self._bounds:
            ends = outbox_ends(self._view, checked)
            self._bounds[checked.service] = common_position(self._settings.postgres_dsn, ends, checked)
        return self._bounds[checked.service]

    def _totals(self, checked: CheckedService) -> KafkaTotals:
        if checked.service not in self._kafka:
            stores = next((one for one in COMPARED_STORES.values() if one.service == checked.service), None)
            bound = self._common(checked).seqs if stores is not None else {}
            self._kafka[checked.service] = kafka_totals(self._settings.kafka, checked, stores, bound)
        return self._kafka[checked.service]

    def _published(self, sql: str) -> Iterator[Violation]:
        for checked in self._services.values():
            published = list(self._view.rows(sql, commands_topic=checked.commands_topic))
            found = self._totals(checked).last_seqs if published else {}
            for row in published:
                if found.get(row["partition"], 0) < row["published_seq"]:
                    place = {"topic": checked.events_topic, "last_seq_in_kafka": found.get(row["partition"], 0)}
                    yield {**row, **place}

    def _valkey_rules(self, sql: str, finding: Finding) -> Iterator[Violation]:
        if self._settings.valkey_rules is None:
            finding.note = "nothing to compare: no users are declared for Valkey"
            return iter(())
        return self._settings.valkey_rules.violations(self._view, sql, finding.tell)

    def _sinks(self, sql: str) -> Iterator[Violation]:
        try:
            found = fed(self._view, sql, self._settings.kafka, self._settings.services)
        except KafkaException as error:
            raise errors.Unavailable(f"Kafka does not say what it holds: {error.args[0].str()}") from error
        return standing_still(self._settings.postgres_dsn, found)

    def _cross_store(self, stores: StoreComparison, sql: str, finding: Finding) -> Iterator[Violation]:
        checked = self._services.get(stores.service)
        if checked is None:
            finding.note = f"nothing of {stores.service} is compared here"
            return
        common, kafka = self._common(checked), self._totals(checked)
        is_level, topic = not common.behind, checked.events_topic
        ours = postgres_sums(self._view, stores, sql, topic, common.seqs, is_level=is_level)
        theirs = clickhouse_sums(self._settings.clickhouse.client(), stores, common.seqs, is_level=is_level)
        finding.note = f"compared {sum(common.seqs.values())} events"
        if common.behind:
            finding.note += f"; {common.behind} are not in ClickHouse yet and were not compared"
        ends = outbox_ends(self._view, checked)
        for partition, seq in self._before.sink_seqs[checked.service].items():
            # Published means committed: what ClickHouse held before the snapshot, the snapshot holds.
            if seq > ends[partition]:
                yield {"what": "position", "partition": partition, "clickhouse": seq, "postgres": ends[partition],
                       "reason": "ClickHouse holds events that were never committed"}  # fmt: skip
        yield from differences(ours, theirs, kafka.sums)

    def _acknowledged(self, sql: str, finding: Finding) -> Iterator[Violation]:
        if self._settings.acknowledged is None:
            finding.note = "nothing to compare: give --acknowledged FILE"
            return
        yield from acknowledged_violations(
            self._view, sql, self._settings.acknowledged, self._before.acknowledged_bytes
        )

"""A replay from start to end: build the shadows in one reading, compare row by row, exchange when asked to.

Everything is compared at one position: ClickHouse's tables at what the sink had confirmed when the replay began,
Postgres's at one snapshot. A live system shows no difference. Before and after, a recovery checkpoint is written.
"""

from __future__ import annotations

import socket
import uuid
from contextlib import ExitStack
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any, Final, Literal, cast

import psycopg

from reconciliation import checkpoints
from reconciliation import limits as reconciliation_limits
from reconciliation.check.cross_store import common_position
from reconciliation.contract.compare import Comparison, compare_rows
from reconciliation.contract.projection import ExchangedProjection, Extent, Projection
from reconciliation.replay.clickhouse_table import ClickHouseTable
from reconciliation.replay.hold import sink_held
from reconciliation.replay.source import KafkaSource, OutboxSource, Source, Start
from reconciliation.services import RECONCILED
from schemas import errors
from sinks import limits as sinks_limits
from sinks.clickhouse.sink import SinkSettings

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from clickhouse_connect.driver.client import Client

    from reconciliation.contract.checked_service import CheckedService
    from sinks.clickhouse.connection import ClickHouseConnection
    from sinks.kafka.connection import KafkaConnection
    from sinks.streams.intake import Accepted

_ENDS: Final = b"select partition, max(seq) from outbox where topic = %s group by partition"


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplaySettings:
    """Where everything is. The DSN is of a role that writes shadows, and what is live only by an exchange."""

    postgres_dsn: str = field(repr=False)
    kafka: KafkaConnection
    clickhouse: ClickHouseConnection
    of: CheckedService
    source: Literal["kafka", "outbox"] = "kafka"


@dataclass(slots=True, kw_only=True)
class ReplayReport:
    """What was read, what differed, and whether the shadows are live now."""

    target: str
    source: str
    events: int = 0
    differences: int = 0
    projections: list[Comparison] = field(default_factory=list)
    swapped: bool = False
    positions: list[dict[str, Any]] = field(default_factory=list)
    checkpoint_begin: str = ""
    checkpoint_end: str = ""

    def as_object(self) -> dict[str, Any]:
        """The report as the CLI prints it with --json."""
        return asdict(self)


def targets(of: CheckedService) -> tuple[str, ...]:
    """What can be replayed of a service."""
    reconciled = RECONCILED[of.service]
    return (*reconciled.exchanged_tables, *reconciled.compared_tables, *of.targets)


def run_replay(
    settings: ReplaySettings,
    target: str,
    start: Start,
    *,
    swap: bool = False,
    keep_shadow: bool = False,
    on_events: Callable[[int], None] = lambda _: None,
) -> ReplayReport:
    """Rebuilds one target. Raises ValueError for what cannot be done, Unavailable when a store is out."""
    if target not in (known := targets(settings.of)):
        there_are = f"there are {', '.join(known)}" if known else "it has none"
        raise ValueError(f"no projection {target!r} of {settings.of.service}; {there_are}")
    if swap and target in RECONCILED[settings.of.service].compared_tables:
        raise ValueError(f"{target} is the authority and is never exchanged: repair it with a command")
    try:
        with ExitStack() as stack:
            return _Replay(settings, target, start, stack, on_events).run(swap=swap, keep_shadow=keep_shadow)
    except psycopg.OperationalError as error:
        raise errors.Unavailable(f"Postgres does not answer: {str(error).strip()}") from error


class _Replay:
    def __init__(
        self,
        settings: ReplaySettings,
        target: str,
        start: Start,
        stack: ExitStack,
        on_events: Callable[[int], None],
    ) -> None:
        self._settings = settings
        self._target = target
        self._start = start
        self._on_events = on_events
        self._snapshot = stack.enter_context(_connect(settings.postgres_dsn))
        self._writer = stack.enter_context(_connect(settings.postgres_dsn))
        self._writer.autocommit = True
        self._snapshot.isolation_level = psycopg.IsolationLevel.REPEATABLE_READ
        self._snapshot.read_only = True
        self._owner_id = f"replay-{socket.gethostname()}-{uuid.uuid4().hex[:8]}"
        self._lock()
        self._snapshot_ends = self._outbox_ends(self._snapshot)
        self._client: Client | None = None
        if target.startswith("clickhouse"):
            self._client = settings.clickhouse.client()
            stack.callback(self._client.close)
        self._source: Source = (
            KafkaSource(settings.kafka, settings.of.events_topic)
            if settings.source == "kafka"
            else OutboxSource(self._snapshot, settings.of.events_topic)
        )
        stack.callback(self._source.close)
        self._extent = Extent()

    def run(self, *, swap: bool, keep_shadow: bool) -> ReplayReport:
        """The steps of a replay."""
        report = ReplayReport(target=self._target, source=self._settings.source)
        # 1. Where it begins and how far it is compared.
        partitions = self._source.begin(self._start, range(self._settings.of.partitions))
        if swap and len(partitions) < self._settings.of.partitions and not self._may_swap_part():
            raise ValueError("a swap needs every partition: give an offset for each, or begin elsewhere")
        ends = self._ends()
        self._extent.last_seqs = {p: ends[p] for p in partitions}
        report.checkpoint_begin = self._checkpoint("begin", "pending")
        # 2. Build the shadows in one reading.
        projections = self._projections()
        for projection in projections:
            projection.begin()
        self._apply(projections, self._extent.last_seqs)
        # A partition without events in the extent is compared too, as empty.
        compared = Extent({p: ends[p] + 1 for p in partitions} | self._extent.first_seqs, self._extent.last_seqs)
        for projection in projections:
            projection.complete(compared, from_zero=self._start.is_zero)
        # 3. Compare.
        for projection in projections:
            live, shadow = projection.live_rows(compared), projection.shadow_rows(compared)
            report.projections.append(
                compare_rows(projection.name, projection.columns, projection.key_width, live, shadow)
            )
        report.differences = sum(c.differences for c in report.projections)
        # 4. Exchange.
        if swap:
            report.swapped = True
            self._swap(projections)
        if not keep_shadow:
            for projection in projections:
                projection.drop()
        report.events = self._extent.events
        report.positions = [{"partition": p, "seq": seq} for p, seq in sorted(self._extent.last_seqs.items())]
        clean = report.swapped or not report.differences
        report.checkpoint_end = self._checkpoint("end", "clean" if clean else "gaps")
        return report

    def _apply(self, projections: list[Projection], ends: dict[int, int]) -> None:
        chunk: list[Accepted] = []
        for events in self._source.read(ends):
            chunk += events
            if len(chunk) >= reconciliation_limits.REPLAY_CHUNK_EVENTS:
                self._apply_chunk(projections, chunk)
                chunk = []
        if chunk:
            self._apply_chunk(projections, chunk)

    def _apply_chunk(self, projections: list[Projection], chunk: list[Accepted]) -> None:
        for projection in projections:
            projection.apply(chunk)
        self._extent.note(chunk)
        self._on_events(self._extent.events)

    def _projections(self) -> list[Projection]:
        of = self._settings.of
        if self._client is not None and of.sink is not None:
            name = self._target.partition(".")[2]
            wanted = (of.sink.table(name),) if name else of.sink.tables
            return [ClickHouseTable(self._client, of.sink, table) for table in wanted]
        reconciled = RECONCILED[of.service]
        make = reconciled.exchanged_tables.get(self._target) or reconciled.compared_tables[self._target]
        return [make(self._snapshot, self._writer, of.events_topic)]

    def _ends(self) -> dict[int, int]:
        """Per partition the last seq to compare: what ClickHouse holds, or what the snapshot of Postgres holds."""
        if self._client is None:
            return self._snapshot_ends
        return common_position(self._settings.postgres_dsn, self._snapshot_ends, self._settings.of).seqs

    def _may_swap_part(self) -> bool:
        return self._client is not None  # the live rows outside of the extent are copied

    def _swap(self, projections: list[Projection]) -> None:
        if self._client is None:
            self._swap_in_postgres(cast("ExchangedProjection", projections[0]))
        else:
            self._swap_clickhouse([cast("ClickHouseTable", p) for p in projections])

    def _swap_clickhouse(self, shadows: list[ClickHouseTable]) -> None:
        """The sink lets go, the shadows catch up to exactly where it stands, and it goes on from there."""
        settings, of = self._settings, self._settings.of
        if self._client is None or of.sink is None:
            raise ValueError("no ClickHouse to exchange in")
        held_sink = SinkSettings(
            sink=of.sink,
            kafka=settings.kafka,
            postgres_dsn=settings.postgres_dsn,
            clickhouse=settings.clickhouse,
            topic=of.events_topic,
            partitions=of.partitions,
            owner_id=self._owner_id,
        )
        with sink_held(held_sink, self._client) as fence:
            held = fence.positions(range(settings.of.partitions))
            self._extent.last_seqs = {p: held[p].last_seq for p in self._extent.last_seqs}
            if isinstance(self._source, OutboxSource):
                self._source = self._source.refreshed(self._writer)
            self._apply([*shadows], self._extent.last_seqs)
            for shadow in shadows:
                if not self._start.is_zero:
                    shadow.fill_before(self._extent.first_seqs)
            for shadow in shadows:
                fence.hold_through()
                shadow.exchange()

    def _swap_in_postgres(self, shadow: ExchangedProjection) -> None:
        """Owners' commits wait while the shadow takes in what came since the snapshot and is exchanged."""
        with self._writer.transaction():
            shadow.hold()
            ends = self._outbox_ends(self._writer)
            tail = OutboxSource(self._writer, self._settings.of.events_topic)
            tail.begin(Start(offsets={p: seq + 1 for p, seq in self._snapshot_ends.items()}), range(0))
            for events in tail.read(ends):
                shadow.apply(events)
                self._extent.note(events)
            shadow.exchange()
        self._extent.last_seqs = ends

    def _outbox_ends(self, connection: psycopg.Connection) -> dict[int, int]:
        found: dict[int, int] = dict(connection.execute(_ENDS, (self._settings.of.events_topic,)).fetchall())
        return {p: found.get(p, 0) for p in range(self._settings.of.partitions)}

    def _lock(self) -> None:
        """One replay at a time: shadows have fixed names. One that has ended may hold its lock for a moment yet."""
        wait_ms = 1_000 * reconciliation_limits.REPLAY_LOCK_WAIT_S
        try:
            with self._writer.transaction():
                self._writer.execute("select set_config('lock_timeout', %s, true)", (f"{wait_ms}ms",))
                self._writer.execute("select pg_advisory_lock(hashtext('millrace_replay'))")
        except psycopg.errors.LockNotAvailable as error:
            raise ValueError("another replay is under way") from error

    def _checkpoint(self, moment: str, status: checkpoints.Status) -> str:
        name = f"{self._owner_id}-{moment}"
        checkpoints.checkpoint_write(
            self._writer,
            checkpoints.Checkpoint(
                name=name,
                scenario=f"replay of {self._target}: {moment}",
                operation_id=self._owner_id,
                projection_checkpoint=checkpoints.sink_place(self._writer, self._settings.of),
                owner=self._owner_id,
                reconciliation_status=status,
            ),
        )
        return name


def _connect(dsn: str) -> psycopg.Connection:
    return psycopg.connect(
        dsn, connect_timeout=sinks_limits.POSTGRES_CONNECT_TIMEOUT_S, application_name="millrace-replay"
    )


def partition_offsets(texts: Iterable[str], partitions: int) -> dict[int, int]:
    """``PARTITION:OFFSET`` texts of a topic with so many partitions. Raises ValueError with what is wrong."""
    offsets = {}
    for text in texts:
        partition, colon, offset = text.partition(":")
        if not colon or not partition.isdecimal() or not offset.isdecimal():
            raise ValueError(f"{text!r} is not PARTITION:OFFSET, such as 3:1200")
        if int(partition) >= partitions:
            raise ValueError(f"there is no partition {partition}; there are 0 to {partitions - 1}")
        offsets[int(partition)] = int(offset)
    return offsets

"""The table ``attempt_dispatch``, queue and memory of all workers: each method is one statement, one transaction.

Safe with any number of workers: a row is leased under ``for update skip locked``, and what a worker may do to a
row that is not its own any more stands in the statement's condition.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any, Final

import msgspec
from psycopg.pq import ExecStatus
from psycopg_pool import AsyncConnectionPool

from dataflows.payments.attempts.adapter import Call
from dataflows.payments.attempts.dispatch import AttemptLease, Change, Due
from dataflows.payments.attempts.facts import Fact
from schemas import limits
from schemas.payments import limits as payments_limits
from schemas.payments.processors import NAMED_BY_CHARGE
from sinks import limits as sinks_limits
from sinks.postgres import arrays
from sinks.postgres.session import INDEXED, NOT_HELD, AsyncSession
from sinks.postgres.sql_files import queries

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Sequence

    from dataflows.payments.attempts.health import Health
    from dataflows.payments.attempts.settlement import DispatchRecord

_SESSION: Final = (
    f"{INDEXED} {NOT_HELD} -c synchronous_commit=on -c client_min_messages=warning "
    f"-c statement_timeout={payments_limits.ATTEMPT_STATEMENT_TIMEOUT_MS}"
)
_texts: Final = msgspec.json.Decoder(dict[str, str]).decode
_STATUS_OF_WISH: Final = {"carry_out": "waiting", "review": "review", "done": "done"}


class DispatchStore:
    """The dispatch rows as one worker sees them. Every method may raise psycopg.OperationalError: repeat it."""

    def __init__(self, dsn: str, worker: str) -> None:
        self._worker = worker
        self._sql = queries("sinks.postgres.queries.payments", "attempts.sql")
        self._pool = AsyncConnectionPool(
            dsn,
            connection_class=AsyncSession,
            kwargs={
                "autocommit": True,
                "application_name": worker,
                "options": _SESSION,
                "prepare_threshold": 0,
                "connect_timeout": sinks_limits.POSTGRES_CONNECT_TIMEOUT_S,
                "keepalives_idle": sinks_limits.POSTGRES_KEEPALIVE_S,
                "keepalives_interval": sinks_limits.POSTGRES_KEEPALIVE_S,
                "keepalives_count": 3,
            },
            min_size=1,
            max_size=payments_limits.ATTEMPT_POSTGRES_POOL_MAX,
            timeout=sinks_limits.POSTGRES_CONNECT_TIMEOUT_S,
            reconnect_timeout=limits.POSTGRES_RECONNECT_S,
            open=False,
        )

    async def open(self) -> None:
        """Starts connecting; returns at once."""
        await self._pool.open()

    async def close(self) -> None:
        """Closes all connections."""
        await self._pool.close()

    async def take(self, changes: Sequence[Change], leased: Collection[str]) -> list[AttemptLease]:
        """Makes the changes durable once each and returns leases of the new attempts among ``leased`` (operation ids).

        What was known before is left alone, so a batch may be taken again. Changes come sorted, one per attempt.
        """
        asked_at = time.monotonic()
        calls = [change.call for change in changes]
        statuses = ["leased" if c.call.operation_id in leased else _STATUS_OF_WISH[c.wish] for c in changes]
        rows = await self._run(
            "attempts_take",
            {
                "worker": self._worker,
                "lease_ms": payments_limits.ATTEMPT_LEASE_MS,
                "operation_id": arrays.text_array([c.operation_id for c in calls]),
                "intent_id": arrays.text_array([c.intent_id for c in calls]),
                "attempt": arrays.int_array(c.attempt for c in changes),
                "processor": arrays.text_array([c.processor for c in changes]),
                "kind": arrays.text_array([c.kind for c in calls]),
                "amount": arrays.int_array(c.amount for c in calls),
                "currency": arrays.text_array([c.currency for c in calls]),
                "payment_method": arrays.text_array([c.payment_method for c in calls]),
                "parent_ref": arrays.optional_text_array(c.parent_ref for c in calls),
                "final": arrays.bool_array(c.final for c in calls),
                "merchant_id": arrays.text_array([c.merchant_id for c in calls]),
                "trace_id": arrays.text_array([c.trace_id for c in changes]),
                "status": arrays.text_array(statuses),
                "outcome": arrays.optional_text_array(c.outcome for c in changes),
                "provider_ref": arrays.optional_text_array(c.provider_ref for c in changes),
                "error_code": arrays.optional_text_array(c.error_code for c in changes),
            },
        )
        fresh = {operation_id for operation_id, status in rows if status == "leased"}
        return [
            AttemptLease(
                call=change.call,
                attempt=change.attempt,
                processor=change.processor,
                trace_id=change.trace_id,
                send_count=1,
                unknown_count=0,
                in_doubt=False,
                first_at=asked_at,
                ends_at=_lease_end(asked_at),
            )
            for change in changes
            if change.call.operation_id in fresh
        ]

    async def lease(self, processor: str, count: int) -> list[AttemptLease]:
        """Leases up to ``count`` due attempts of a processor; committed when this returns."""
        asked_at = time.monotonic()
        rows = await self._run(
            "attempts_lease",
            {
                "worker": self._worker,
                "lease_ms": payments_limits.ATTEMPT_LEASE_MS,
                "processor": processor,
                "count": count,
            },
        )
        return [_lease_of(row, asked_at) for row in rows]

    async def due(self, processors: Collection[str]) -> Due:
        """What a worker would find that looks for all of these at once."""
        ((names, has_late_facts),) = await self._run("attempts_due", {"processors": sorted(processors)})
        return Due(frozenset(names), has_late_facts)

    async def record(self, records: Iterable[DispatchRecord]) -> None:
        """Writes down what came of turns. The facts of these records must be durable before."""
        ordered = sorted(records, key=lambda record: record.operation_id)
        await self._run(
            "attempts_record",
            {
                "worker": self._worker,
                "operation_id": arrays.text_array([r.operation_id for r in ordered]),
                "send_count": arrays.int_array(r.send_count for r in ordered),
                "status": arrays.text_array([r.status for r in ordered]),
                "in_doubt": arrays.bool_array(r.in_doubt for r in ordered),
                "unknowns": arrays.int_array(r.unknowns for r in ordered),
                "delay_ms": arrays.int_array(r.delay_ms for r in ordered),
                "outcome": arrays.optional_text_array(r.outcome for r in ordered),
                "provider_ref": arrays.optional_text_array(r.provider_ref for r in ordered),
                "amount": arrays.int_array(-1 if r.amount is None else r.amount for r in ordered),
                "currency": arrays.optional_text_array(r.currency for r in ordered),
                "error_code": arrays.optional_text_array(r.error_code for r in ordered),
            },
        )

    async def repeat(self) -> list[Fact]:
        """The facts whose event is overdue, to be produced again; past the schedule the row is put up for review."""
        rows = await self._run(
            "attempts_repeat",
            {
                "count": payments_limits.ATTEMPT_REPEAT_BATCH_MAX,
                "repeats_max": len(payments_limits.ATTEMPT_CONFIRM_SCHEDULE_S),
                "schedule_s": arrays.int_array(payments_limits.ATTEMPT_CONFIRM_SCHEDULE_S),
            },
        )
        return [_fact_of(row) for row in rows]

    async def give_up(self, processor: str, *, is_away: bool) -> list[Fact]:
        """Ends attempts that never left us, for good: no worker sends them any more. Answers the facts to be told.

        Those that another processor could serve end soon when theirs ``is_away`` and answers no other worker either;
        all others after a long bound.
        """
        rows = await self._run(
            "attempts_give_up",
            {
                "processor": processor,
                "worker": self._worker,
                "kept_s": payments_limits.PROCESSOR_HEALTH_KEPT_S,
                "is_away": is_away,
                "unavailable_s": payments_limits.ATTEMPT_UNAVAILABLE_AFTER_S,
                "unreachable_s": payments_limits.ATTEMPT_UNREACHABLE_MAX_S,
                "confirm_s": payments_limits.ATTEMPT_CONFIRM_SCHEDULE_S[0],
                "count": payments_limits.ATTEMPT_GIVE_UP_BATCH_MAX,
            },
        )
        return [_fact_of(row) for row in rows]

    async def tell_health(self, reports: Sequence[Health]) -> None:
        """Writes how processors are, beside what other workers told lately."""
        await self._run(
            "processor_health_tell",
            {
                "worker": self._worker,
                "window_s": payments_limits.PROCESSOR_HEALTH_WINDOW_S,
                "kept_s": payments_limits.PROCESSOR_HEALTH_KEPT_S,
                "processor": arrays.text_array([r.processor for r in reports]),
                "succeeded": arrays.int_array(r.counts.succeeded for r in reports),
                "declined": arrays.int_array(r.counts.declined for r in reports),
                "failed": arrays.int_array(r.counts.failed for r in reports),
                "unknown": arrays.int_array(r.counts.unknown for r in reports),
                "breaker": arrays.text_array([r.breaker for r in reports]),
            },
        )

    async def end_reviews(self) -> None:
        """Closes the cases of attempts that have come to their end by themselves."""
        await self._run("attempt_reviews_end", {})

    async def prune(self) -> int:
        """Removes finished rows that are old enough, a bounded number; how many there were."""
        rows = await self._run(
            "attempts_prune",
            {
                "kept_s": payments_limits.ATTEMPT_DONE_KEPT_S,
                "count": payments_limits.ATTEMPT_PRUNE_BATCH_MAX,
                "named_by_charge": list(NAMED_BY_CHARGE),
            },
        )
        return int(rows[0][0])

    async def backlog(self) -> dict[str, tuple[int, float]]:
        """Count and age in seconds of the oldest attempt that is due, unconfirmed or under review."""
        return {name: (count, age) for name, count, age in await self._run("attempts_backlog", {})}

    async def _run(self, name: str, parameters: dict[str, Any]) -> list[tuple[Any, ...]]:
        async with self._pool.connection() as connection:
            cursor = await connection.execute(self._sql[name].encode(), parameters)
            is_answered = cursor.pgresult is not None and cursor.pgresult.status == ExecStatus.TUPLES_OK
            return await cursor.fetchall() if is_answered else []


def _lease_end(asked_at: float) -> float:
    # Counted from before the statement: by our clock a lease ends no later than by the database's.
    return asked_at + payments_limits.ATTEMPT_LEASE_MS / 1_000


def _lease_of(row: tuple[Any, ...], asked_at: float) -> AttemptLease:
    (operation_id, intent_id, attempt, processor, kind, amount, currency, payment_method, parent_ref, final) = row[:10]
    merchant_id, trace_id, send_count, unknown_count, in_doubt, age_s, evidence, only_asked, for_payer = row[10:19]
    return AttemptLease(
        call=Call(
            operation_id=operation_id,
            intent_id=intent_id,
            merchant_id=merchant_id,
            kind=kind,
            amount=amount,
            currency=currency,
            payment_method=payment_method,
            parent_ref=parent_ref,
            final=final,
            evidence=None if evidence is None else _texts(evidence),
            for_payer={} if for_payer is None else _texts(for_payer),
        ),
        attempt=attempt,
        processor=processor,
        trace_id=trace_id,
        send_count=send_count,
        unknown_count=unknown_count,
        in_doubt=in_doubt,
        first_at=asked_at - age_s,
        ends_at=_lease_end(asked_at),
        only_asked=only_asked,
        is_unwanted=row[19],
    )


def _fact_of(row: tuple[Any, ...]) -> Fact:
    operation_id, intent_id, attempt, processor, trace_id, _, outcome, provider_ref, amount, currency = row[:10]
    error_code, send_count = row[10:]
    return Fact(
        operation_id=operation_id,
        intent_id=intent_id,
        attempt=attempt,
        processor=processor,
        trace_id=trace_id,
        send_count=send_count,
        status=outcome,
        provider_ref=provider_ref,
        amount=amount,
        currency=currency,
        error_code=error_code,
    )

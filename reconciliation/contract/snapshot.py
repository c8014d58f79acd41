"""One consistent view of Postgres for a whole check: every invariant sees the same committed transactions."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final

import psycopg
from psycopg.rows import dict_row

from reconciliation import limits as reconciliation_limits
from schemas.payments import limits as payments_limits
from schemas.services import OPERATIONS
from sinks import limits as sinks_limits
from sinks.postgres.roles import ROLES

if TYPE_CHECKING:
    from collections.abc import Iterator

_CURSOR: Final = "check_rows"


class Snapshot:
    """A repeatable-read transaction; its queries stream, so that memory does not grow with the data."""

    def __init__(self, connection: psycopg.Connection, parameters: dict[str, Any]) -> None:
        self._connection = connection
        self._parameters = parameters

    def rows(self, query: str, **parameters: object) -> Iterator[dict[str, Any]]:
        """The rows of a query by column name, a bounded number of them in memory."""
        with self._connection.transaction(), self._connection.cursor(_CURSOR, row_factory=dict_row) as cursor:
            cursor.itersize = reconciliation_limits.CHECK_FETCH_ROWS
            cursor.execute(query.encode(), {**self._parameters, **parameters})
            yield from cursor

    def tuples(self, query: str, **parameters: object) -> Iterator[tuple[Any, ...]]:
        """The same as plain tuples, for long scans."""
        with self._connection.transaction(), self._connection.cursor(_CURSOR) as cursor:
            cursor.itersize = reconciliation_limits.CHECK_FETCH_ROWS
            cursor.execute(query.encode(), {**self._parameters, **parameters})
            yield from cursor

    def whole(self, query: str, **parameters: object) -> list[tuple[Any, ...]]:
        """All rows at once, in one round trip instead of six: for what is asked again and again, and is short."""
        return self._connection.execute(query.encode(), {**self._parameters, **parameters}).fetchall()


def parameters(
    events_topic: str, commands_topic: str, grace_s: int, monitored_s: float | None = None
) -> dict[str, Any]:
    """What the queries of the invariants are given by name."""
    outside = [(operation.outside, operation.name) for operation in OPERATIONS.values() if operation.outside]
    return {
        "events_topic": events_topic,
        "commands_topic": commands_topic,
        "grace_s": grace_s,
        "events_grace_s": reconciliation_limits.CHECK_EVENTS_GRACE_S,
        "horizon_days": payments_limits.SETTLEMENT_HORIZON_DAYS,
        "payout_horizon_days": payments_limits.PAYOUT_HORIZON_DAYS,
        "dispute_due_days": payments_limits.DISPUTE_DUE_UNSEEN_DAYS,
        "roles": list(ROLES),
        "monitored_s": monitored_s,
        "monitor_round_s": reconciliation_limits.CHECK_MONITOR_ROUND_S,
        "outside_kinds": [kind for kind, _ in outside],
        "outside_operations": [name for _, name in outside],
    }


@contextmanager
def snapshot(
    dsn: str, *, events_topic: str, commands_topic: str, grace_s: int, monitored_s: float | None = None
) -> Iterator[Snapshot]:
    """A read-only view of this moment; it must not outlive the check, for it holds vacuum back."""
    with psycopg.connect(
        dsn, connect_timeout=sinks_limits.POSTGRES_CONNECT_TIMEOUT_S, application_name="millrace-check"
    ) as connection:
        connection.isolation_level = psycopg.IsolationLevel.REPEATABLE_READ
        connection.read_only = True
        connection.execute(f"set local statement_timeout = {reconciliation_limits.CHECK_STATEMENT_TIMEOUT_MS}")
        yield Snapshot(connection, parameters(events_topic, commands_topic, grace_s, monitored_s))
        connection.rollback()

"""Totals of keys that were idle for long are let go, with what was refused of them in shadow and given back.

Anybody may ask under ever new users and routes, and each is a key. A key that comes again begins anew. What a source
has counted is remembered for longer than its blocks are in Kafka, so nothing that is let go is counted twice.
"""

from __future__ import annotations

import math
import time
from typing import TYPE_CHECKING, Any, Final

from limiter.policy.keys import signed_hash
from schemas.limiter import limits
from sinks.postgres.sql_files import queries

if TYPE_CHECKING:
    import psycopg

SQL: Final = queries("sinks.postgres.queries.limiter", "policies.sql")


class IdleTotals:
    """Of one follower. Not for several threads."""

    def __init__(self) -> None:
        self._due_at = -math.inf
        self._estimated = self._gone = 0  # about how many there were, and what went since that was known

    def let_go(self, connection: psycopg.Connection[Any]) -> None:
        """Some at a time, and on while there are more. Raises psycopg.OperationalError."""
        now = time.monotonic()
        if now < self._due_at:
            return
        gone = prune(connection, is_full=self._is_full(connection))
        self._gone += gone
        if gone < limits.LIMIT_USAGE_PRUNED_MAX:
            connection.execute(SQL["usage_sources_prune"], (limits.LIMIT_USAGE_IDLE_HOURS,))
            self._due_at = now + limits.LIMIT_USAGE_PRUNE_S

    def _is_full(self, connection: psycopg.Connection[Any]) -> bool:
        """The planner's number is hours old where little changes."""
        found: Any = connection.execute(SQL["usage_estimated"]).fetchone()
        if found[0] != self._estimated:
            self._estimated, self._gone = found[0], 0
        return self._estimated - self._gone > limits.LIMIT_USAGE_TOTALS_MAX


def prune(connection: psycopg.Connection[Any], *, is_full: bool) -> int:
    """How many totals went, the longest idle first; ``is_full``: all but those of the last hours may go."""
    idle_hours = limits.LIMIT_USAGE_IDLE_HOURS_FULL if is_full else limits.LIMIT_USAGE_IDLE_HOURS
    with connection.transaction():
        given = {"hours": idle_hours, "at_most": limits.LIMIT_USAGE_PRUNED_MAX}
        rows = connection.execute(SQL["usage_prune"], given).fetchall()
        if rows:
            connection.execute(SQL["usage_prune_shadows"], ([digest for _, digest in rows],))
            connection.execute(SQL["usage_prune_refunds"], ([signed_hash(key) for key, _ in rows],))
    return len(rows)

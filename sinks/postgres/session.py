"""Sessions whose bounds end them, and the options that every process with point statements shares."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, TypeVar

import psycopg

from sinks import limits

if TYPE_CHECKING:
    from psycopg.abc import PQGen

Result = TypeVar("Result")

#: On young tables the plan of a prepared statement would keep a sequential scan or a hash join: measured 140 us a
#: command instead of 20 in the owner, 0.5 ms a look-up in the ingress. Every statement of these sessions has an index.
INDEXED: Final = "-c enable_seqscan=off -c enable_hashjoin=off -c enable_mergejoin=off"


def not_held(held_ms: int) -> str:
    """A process that stands still in a transaction keeps what it locked from whoever takes over no longer than this.

    It is stopped, or its machine is: its connection stays, and no keepalive would tell.
    """
    return f"-c idle_in_transaction_session_timeout={held_ms}"


NOT_HELD: Final = not_held(limits.IDLE_IN_TRANSACTION_TIMEOUT_MS)

#: psycopg tells them as errors of a state and of Postgres itself, which nobody waits for
_ENDED_BY_ITS_BOUND: Final = (psycopg.errors.IdleInTransactionSessionTimeout, psycopg.errors.TransactionTimeout)


class Session(psycopg.Connection[tuple[Any, ...]]):
    """A session that its bound ended is away as any other: the process that stood still waits, and begins again."""

    def wait(self, gen: PQGen[Result], *args: Any, **named: Any) -> Result:
        """As ever. Raises psycopg.OperationalError for a transaction that took too long or stood still, too."""
        try:
            return super().wait(gen, *args, **named)
        except _ENDED_BY_ITS_BOUND as error:
            raise psycopg.OperationalError(str(error)) from error


class AsyncSession(psycopg.AsyncConnection[tuple[Any, ...]]):
    """As Session."""

    async def wait(self, gen: PQGen[Result], *args: Any, **named: Any) -> Result:
        """As ever. Raises psycopg.OperationalError for a transaction that took too long or stood still, too."""
        try:
            return await super().wait(gen, *args, **named)
        except _ENDED_BY_ITS_BOUND as error:
            raise psycopg.OperationalError(str(error)) from error

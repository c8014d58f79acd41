"""The processor's durable book: the outside witness of every effect.

Guarantees: an operation id has one effect for ever; a batch is applied whole or not at all; what ``commit``
returned is on disk (WAL with synchronous=FULL). Identity, effect, fault counters, the webhooks that tell of it and
its place in a settlement share one transaction. One thread at a time may use a ``Book``; any number of readers
may read beside it.
"""

from __future__ import annotations

import sqlite3
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from compose.simulator import errors
from compose.simulator.book.storage import book_open
from compose.simulator.executor import Executor, Query, Result
from compose.simulator.operations.nouns import Operation

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

T_co = TypeVar("T_co", covariant=True)


class Deed(Protocol[T_co]):
    """Something else that is done to the book; when it raises a SimulatorError it has changed nothing."""

    def apply(self, connection: sqlite3.Connection) -> T_co:
        """Does it inside the writer's transaction."""
        ...


Work = Operation | Query | Deed[Any]
WorkResult = Any  # a Result for an operation or query, a deed's own, or an errors.SimulatorError


class Book:
    """The single writer's side of the book."""

    def __init__(self, folder: Path, *, tells: bool = False) -> None:
        """Opens the book in ``folder``, making it if need be; ``tells`` when somebody is to hear of its effects.

        Raises errors.BookUnavailable with advice.
        """
        self._connection = book_open(folder)
        self._executor = Executor(self._connection, tells=tells)

    def close(self) -> None:
        """Ends this side of the book; what was committed stays."""
        self._connection.close()

    def commit(self, batch: Sequence[Work]) -> list[WorkResult]:
        """Applies the batch in order in one durable transaction and returns one result for each, in order.

        What cannot be written gets errors.BookUnavailable and has changed nothing. A refused row fails alone:
        its batch is tried again part by part. A disk or lock fault concerns all, so nothing is tried again.
        """
        try:
            return self._transact(batch)
        except (sqlite3.IntegrityError, sqlite3.DataError) as error:
            if len(batch) == 1:
                return [errors.BookUnavailable(f"the processor's book refused the operation: {error}")]
        except sqlite3.Error as error:
            unavailable = f"the processor's book cannot be written: {error}; send the same operation again"
            return [errors.BookUnavailable(unavailable) for _ in batch]
        return [result for work in batch for result in self.commit([work])]

    def _transact(self, batch: Sequence[Work]) -> list[WorkResult]:
        connection = self._connection
        connection.execute("BEGIN IMMEDIATE")
        try:
            results = [self._apply(work) for work in batch]
            connection.execute("COMMIT")
        except BaseException:
            # A failed COMMIT may or may not have ended the transaction itself.
            if connection.in_transaction:
                connection.execute("ROLLBACK")
            raise
        return results

    def _apply(self, work: Work) -> Result | errors.SimulatorError | Any:
        if isinstance(work, Query):
            return self._executor.query(work)
        if isinstance(work, Operation):
            return self._executor.carry_out(work)
        self._connection.execute("SAVEPOINT deed")
        try:
            result = work.apply(self._connection)
        except errors.SimulatorError as error:
            self._connection.execute("ROLLBACK TO deed")
            result = error
        self._connection.execute("RELEASE deed")
        return result

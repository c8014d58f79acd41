"""The processor's durable book: the only I/O to its SQLite file, and the outside witness of every effect.

Guarantees: an operation id has one effect for ever; a batch is applied whole or not at all; what ``commit``
returned is on disk (WAL with synchronous=FULL). Identity, effect and fault counters share one transaction.
One thread at a time may use a ``Book``; any number of ``reader.BookReader`` may read beside it.
"""

from __future__ import annotations

import sqlite3
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from compose.simulator import errors, modes
from compose.simulator.effects import decide_effect
from compose.simulator.operations import Hold, Operation, Outcome, provider_ref_for
from compose.simulator.statements import QUERIES, SCHEMA
from schemas import limits

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from compose.simulator.effects import Effect
    from compose.simulator.operations import OperationBody

BOOK_FILE_NAME: Final = "book.sqlite3"


@dataclass(frozen=True, slots=True)
class Query:
    """A question about an operation; it stands in line with the sends and sees all that came before it."""

    operation_id: str


Work = Operation | Query


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """How a send or a query is to be answered; ``outcome`` is None when the operation was not executed."""

    outcome: Outcome | None
    answer: modes.Answer = modes.Answer.TRUTH
    delay_ms: int = 0
    #: Only the operation's first execution is news; a replay repeats it.
    is_replay: bool = False


WorkResult = Result | errors.SimulatorError


@dataclass(frozen=True, slots=True)
class _Stored:
    outcome: Outcome
    fingerprint: bytes
    mode: modes.Mode


class Book:
    """The single writer's side of the book."""

    def __init__(self, folder: Path) -> None:
        """Opens the book in ``folder``, making it if need be. Raises errors.BookUnavailable with advice."""
        path = folder / BOOK_FILE_NAME
        try:
            folder.mkdir(parents=True, exist_ok=True)
            self._connection = book_connect(path)
            self._connection.executescript(SCHEMA)
        except (OSError, sqlite3.Error) as error:
            raise errors.BookUnavailable(
                f"cannot open the processor's book {path}: {error}; free the disk or move the file away"
            ) from error

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

    def _apply(self, work: Work) -> WorkResult:
        if isinstance(work, Query):
            return self._query(work)
        stored = self._stored(work.operation_id)
        if stored is None:
            return self._execute(work)
        if stored.fingerprint != work.fingerprint:
            return errors.KeyReused()
        send = stored.mode.send(self._sends(work, stored.mode))
        return Result(outcome=stored.outcome, answer=send.answer, delay_ms=stored.mode.delay_ms, is_replay=True)

    def _execute(self, operation: Operation) -> WorkResult:
        # 1. The identity belongs to the first body that came under it, even when that send never executed.
        sighted = self._connection.execute(QUERIES["sighting_fetch"], (operation.operation_id,)).fetchone()
        if sighted is not None and sighted[0] != operation.fingerprint:
            return errors.KeyReused()
        # 2. The mode is the card's; a capture or void inherits it from its authorization.
        hold = self._hold(operation.body.parent)
        token = _card_of(operation.body, hold)
        mode = _mode_of(token)
        # 3. Count the send, durably, where behaviour depends on it.
        send = mode.send(self._sends(operation, mode))
        if not send.executes:
            return Result(outcome=None, answer=send.answer, delay_ms=mode.delay_ms)
        # 4. Decide and book.
        effect = decide_effect(operation.body, mode, hold)
        outcome = self._record(operation, token, effect)
        return Result(outcome=outcome, answer=send.answer, delay_ms=mode.delay_ms)

    def _record(self, operation: Operation, token: str | None, effect: Effect) -> Outcome:
        body = operation.body
        outcome = Outcome(
            provider_ref=provider_ref_for(operation.operation_id),
            operation_id=operation.operation_id,
            kind=body.kind,
            status=effect.status,
            reference=body.reference,
            amount=effect.amount,
            currency=body.currency,
            decline_code=effect.decline_code,
        )
        execute = self._connection.execute
        booked_at_ms = time.time_ns() // 1_000_000
        execute(
            QUERIES["operation_insert"],
            (outcome.operation_id, operation.fingerprint, token, outcome.kind, outcome.status,
             outcome.reference, outcome.amount, outcome.currency, body.parent, outcome.decline_code,
             booked_at_ms),
        )  # fmt: skip
        if outcome.status == "authorized":
            hold = (outcome.provider_ref, token, outcome.reference, outcome.currency, outcome.amount)
            execute(QUERIES["hold_insert"], hold)
        elif effect.captured or effect.released:
            execute(QUERIES["hold_use"], (effect.captured, effect.released, body.parent))
        return outcome

    def _query(self, query: Query) -> WorkResult:
        stored = self._stored(query.operation_id)
        if stored is None:
            return errors.NotFound()
        if stored.mode.garbage_queries == 0:
            return Result(outcome=stored.outcome)
        seen = self._connection.execute(
            QUERIES["sighting_count_query"], (query.operation_id, stored.fingerprint)
        ).fetchall()[0][0]
        return Result(outcome=stored.outcome, answer=stored.mode.query(seen))

    def _stored(self, operation_id: str) -> _Stored | None:
        row = self._connection.execute(QUERIES["operation_fetch"], (operation_id,)).fetchone()
        if row is None:
            return None
        _, fingerprint, token, kind, status, reference, amount, currency, decline_code = row
        outcome = Outcome(
            provider_ref=provider_ref_for(operation_id),
            operation_id=operation_id,
            kind=kind,
            status=status,
            reference=reference,
            amount=amount,
            currency=currency,
            decline_code=decline_code,
        )
        return _Stored(outcome, fingerprint, _mode_of(token))

    def _hold(self, provider_ref: str | None) -> Hold | None:
        if provider_ref is None:
            return None
        row = self._connection.execute(QUERIES["hold_fetch"], (provider_ref,)).fetchone()
        if row is None:
            return None
        ref, token, reference, currency, amount, captured, released = row
        return Hold(
            provider_ref=ref,
            token=token,
            reference=reference,
            currency=currency,
            amount=amount,
            captured=captured,
            released=released,
        )

    def _sends(self, operation: Operation, mode: modes.Mode) -> int:
        if not mode.is_counted:
            return 1
        row = self._connection.execute(
            QUERIES["sighting_count_send"], (operation.operation_id, operation.fingerprint)
        ).fetchall()[0]
        return int(row[0])


def _card_of(body: OperationBody, hold: Hold | None) -> str | None:
    if body.parent is None:
        return body.token
    return None if hold is None else hold.token


def _mode_of(token: str | None) -> modes.Mode:
    return modes.APPROVE if token is None else modes.mode_of(token)


def book_connect(path: Path) -> sqlite3.Connection:
    """A connection whose commits are on disk when they return. Held by one thread at a time."""
    # The writer's thread is not the one that opened the book; the class promises one user at a time.
    connection = sqlite3.connect(
        path, isolation_level=None, check_same_thread=False, timeout=limits.SIMULATOR_LOCK_WAIT_MS / 1_000
    )
    connection.execute("PRAGMA journal_mode = WAL")
    connection.execute("PRAGMA synchronous = FULL")
    return connection

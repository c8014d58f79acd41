"""Tells owners what is due and waits until they decided it. Told again after a crash, it is the same command.

The order is: durable in the tables as due, durable in Kafka, decided by the owner, marked as decided. A kill between
any two of them leaves it due, and the identity keeps the second telling without effect.
"""

from __future__ import annotations

import json
import time
from typing import TYPE_CHECKING, Any

from confluent_kafka import Producer
from msgspec import Struct

from reconciliation.payments.settlement.commands import Due, command_of, late_fee_command, outcome_command
from reconciliation.payments.settlement.store import Found, execute, found_table, keep_found, resolve_cases
from schemas.errors import Unavailable
from schemas.payments import limits
from sinks.kafka.delivery import command_letter, why_not_delivered

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    import psycopg

    from schemas.records import Command
    from sinks.kafka.connection import KafkaConnection


class Posted(Struct, kw_only=True):
    """What became of everything that was due."""

    decided: int = 0
    refused: int = 0
    undecided: int = 0


class Teller:
    """Produces commands with acks=all and waits, bounded, for their results."""

    def __init__(self, connection: psycopg.Connection, kafka: KafkaConnection, wait_s: float) -> None:
        self._connection = connection
        self._kafka = kafka
        self._producer = Producer(kafka.producer("reconcile"))
        self._wait_s = wait_s

    def tell(self, commands: Sequence[Command]) -> dict[tuple[str, str], tuple[str, bytes]]:
        """Status and answer by (scope, key) of every command that was decided in time. Raises errors.Unavailable."""
        letters = (command_letter(self._kafka, command) for command in commands)
        reason = why_not_delivered(self._kafka, self._producer, letters)
        if reason is not None:
            raise Unavailable(f"Kafka did not take every command; run it again: {reason}")
        return self._decisions({(command.scope, command.idempotency_key) for command in commands})

    def _decisions(self, missing: set[tuple[str, str]]) -> dict[tuple[str, str], tuple[str, bytes]]:
        decided: dict[tuple[str, str], tuple[str, bytes]] = {}
        deadline = time.monotonic() + self._wait_s
        while missing and time.monotonic() < deadline:
            asked = sorted(missing)
            rows = execute(
                self._connection, "postings_decided", scopes=[scope for scope, _ in asked], keys=[k for _, k in asked]
            ).fetchall()
            for scope, key, status, response in rows:
                decided[scope, key] = (status, bytes(response))
            missing -= decided.keys()
            if rows:
                deadline = time.monotonic() + self._wait_s  # owners are at work
            if missing:
                time.sleep(limits.SETTLEMENT_POLL_MS / 1_000)
        return decided


def post_due(connection: psycopg.Connection, teller: Teller, on_posted: Callable[[int], None]) -> Posted:
    """Tells everything that is due once and marks what was decided. What is undecided stays due for the next run.

    A line whose owner is halted holds nobody up; when nothing of a chunk is decided, owners are away and the run ends.
    """
    posted = Posted()
    bounds = {"until": execute(connection, "due_until").fetchall()[0][0], "limit": limits.SETTLEMENT_COPY_LINES}
    after = 0
    while lists := execute(connection, "due_lists", after=after, **bounds).fetchall():
        ids = [row[0] for row in lists]
        after = ids[-1]
        chunk = [_due(row) for row in execute(connection, "postings_due", ids=ids)]
        is_answered = _post_chunk(connection, teller, ids, chunk, posted)
        on_posted(posted.decided + posted.refused)
        if not is_answered:
            return posted
    return posted


def refused_tell_anew(connection: psycopg.Connection) -> None:
    """Exchanges and unknown lines that an earlier release refused, each for its accounts, are due once more."""
    with connection.transaction():
        resolve_cases(connection, execute(connection, "refused_tell_anew"))


def book_late_fees(connection: psycopg.Connection, teller: Teller) -> int:
    """Lines that were decided before owners booked the fees of further lines: their fees, once. Tells how many.

    A line is looked at once: when its fee is seen in the ledger, or its posting committed, it is marked.
    """
    booked = 0
    while rows := execute(connection, "fees_unchecked", limit=limits.SETTLEMENT_COPY_LINES).fetchall():
        checked = [_due(line) for *line, is_booked in rows if is_booked]
        missing = [_due(line) for *line, is_booked in rows if not is_booked]
        commands = [late_fee_command(due, _now_us()) for due in missing]
        decisions = teller.tell(commands) if commands else {}
        told = [decisions.get((c.scope, c.idempotency_key), ("", b""))[0] == "committed" for c in commands]
        checked += [due for due, is_committed in zip(missing, told, strict=True) if is_committed]
        execute(
            connection,
            "fees_checked",
            processors=[due.processor for due in checked],
            lines=[due.line_id for due in checked],
        )
        booked += sum(told)
        if not all(told):
            return booked  # the rest is for the next run
    return booked


def tell_outcomes(connection: psycopg.Connection, teller: Teller) -> int:
    """Settlement is one of the doors of a fact: an attempt that is open here and equal to its line has succeeded.

    Tells how many. As with postings, what no owner decides holds nothing up, and the run ends when nothing is decided.
    """
    told = 0
    after = {"after_processor": "", "after_line": ""}
    while rows := execute(connection, "waiting_outcomes", limit=limits.SETTLEMENT_COPY_LINES, **after).fetchall():
        after = dict(zip(after, rows[-1][:2], strict=True))
        told += len(rows)
        if not teller.tell([_outcome(*row) for row in rows]):
            break
    return told


def _outcome(
    processor: str,
    _: str,
    kind: str,
    provider_ref: str,
    gross: int,
    currency: str,
    intent_id: str,
    attempt: int,
    operation_id: str,
) -> Command:
    payload: dict[str, object] = {
        "operation_id": operation_id,
        "attempt": attempt,
        "status": "captured" if kind == "charge" else "refunded",
        "provider_ref": provider_ref,
        "amount": abs(gross),
        "currency": currency,
        "error_code": None,
    }
    return outcome_command(processor, operation_id, payload, intent_id, _now_us())


def _post_chunk(
    connection: psycopg.Connection, teller: Teller, lists: list[int], chunk: list[Due], posted: Posted
) -> bool:
    """Whether any of it was decided, or nothing was left of it to tell."""
    now = _now_us()
    commands = [command_of(due, now) for due in chunk]
    decisions = teller.tell(commands)
    done: list[tuple[Due, str]] = []
    refusals: list[tuple[Due, bytes]] = []
    for due, command in zip(chunk, commands, strict=True):
        decision = decisions.get((command.scope, command.idempotency_key))
        if decision is None:
            posted.undecided += 1
        elif decision[0] == "committed":
            posted.decided += 1
            done.append((due, "decided"))
        else:
            posted.refused += 1
            done.append((due, "refused"))
            refusals.append((due, decision[1]))
    with found_table(connection):
        for due, answer in refusals:
            keep_found(connection, due.processor, "", [_refusal_found(due, answer)])
        execute(
            connection,
            "postings_done",
            processors=[due.processor for due, _ in done],
            lines=[due.line_id for due, _ in done],
            postings=[posting for _, posting in done],
        )
        execute(connection, "due_told", ids=lists)
    return bool(done) or not chunk


def _refusal_found(due: Due, answer: bytes) -> Found:
    return Found(
        subject=due.line_id,
        found_class="posting_refused",
        reference=due.intent_id or due.line_id,
        amount=abs(due.gross),
        currency=due.currency,
        line_id=due.line_id,
        matched=due.matched,
        detail=str(json.loads(answer).get("code")),
    )


def _due(row: Sequence[Any]) -> Due:
    return Due(**dict(zip(Due.__struct_fields__, row, strict=True)))


def _now_us() -> int:
    return time.time_ns() // 1_000

"""Carries operations out inside the writer's transaction: identity first, then the card's mode, then the one effect.

``effects`` decides what an operation does; this module remembers it, repeats it and answers for it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import msgspec

from compose.simulator import errors, limits, webhooks
from compose.simulator.evidence import decide_evidence, keep_evidence
from compose.simulator.operations import modes
from compose.simulator.operations.effects import Effect, decide_effect
from compose.simulator.operations.fees import fee_of
from compose.simulator.operations.known import KnownOperations, waiting
from compose.simulator.operations.nouns import Capture, Hold, Operation, OperationBody, Outcome, provider_ref_for
from compose.simulator.statements import QUERIES

if TYPE_CHECKING:
    import sqlite3

    from compose.simulator.operations.nouns import Status


@dataclass(frozen=True, slots=True)
class Query:
    """A question about an operation; it stands in line with the sends and sees all that came before it."""

    operation_id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """How a send or a query is to be answered; ``outcome`` is None when the operation was not executed."""

    outcome: Outcome | None
    answer: modes.Answer = modes.Answer.TRUTH
    delay_ms: int = 0
    #: Only the operation's first execution is news; a replay repeats it.
    is_replay: bool = False
    #: The answer is to leave after the webhook.
    webhook_first: bool = False


class Executor:
    """The operations of one book; ``tells``: webhooks are written for whoever listens."""

    def __init__(self, connection: sqlite3.Connection, *, tells: bool) -> None:
        self._connection = connection
        self._known = KnownOperations(connection)
        self._tells = tells

    def carry_out(self, operation: Operation) -> Result | errors.SimulatorError:
        """Executes a new operation once, repeats the outcome of a known one."""
        stored = self._known.operation(operation.operation_id)
        if stored is None:
            return self._execute(operation)
        if stored.fingerprint != operation.fingerprint:
            return errors.KeyReused()
        send = stored.mode.send(self._sends(operation, stored.mode))
        return Result(outcome=stored.outcome, answer=send.answer, delay_ms=stored.mode.delay_ms, is_replay=True)

    def query(self, query: Query) -> Result | errors.SimulatorError:
        """What is true of an operation now: a refund that succeeded and failed later has failed."""
        stored = self._known.operation(query.operation_id)
        if stored is None:
            return errors.NotFound()
        outcome = stored.outcome
        if stored.released is not None:
            outcome = _ended(outcome, stored.released)
        if stored.failed_later is not None:
            outcome = msgspec.structs.replace(
                outcome, status="failed", decline_code=stored.failed_later, after_success=True
            )
        if stored.mode.garbage_queries == 0:
            return Result(outcome=outcome, answer=stored.mode.query(1))
        seen = self._connection.execute(
            QUERIES["sighting_count_query"], (query.operation_id, stored.fingerprint)
        ).fetchall()[0][0]
        return Result(outcome=outcome, answer=stored.mode.query(seen))

    def _execute(self, operation: Operation) -> Result | errors.SimulatorError:
        # 1. The identity belongs to the first body that came under it, even when that send never executed.
        sighted = self._connection.execute(QUERIES["sighting_fetch"], (operation.operation_id,)).fetchone()
        if sighted is not None and sighted[0] != operation.fingerprint:
            return errors.KeyReused()
        # 2. The mode is the card's; what follows an authorization or a capture inherits it from there.
        body = operation.body
        hold, capture = self._known.parents(body)
        token = _card_of(body, hold or capture)
        mode = modes.mode_of(token)
        # 3. Count the send, durably, where behaviour depends on it.
        send = mode.send(self._sends(operation, mode))
        if not send.executes:
            return Result(outcome=None, answer=send.answer, delay_ms=mode.delay_ms)
        # 4. Decide and book; or wait for the payer, and book then.
        if body.kind in mode.actions:
            outcome = self._wait_for_payer(operation, token, mode)
            return Result(outcome=outcome, answer=send.answer, delay_ms=mode.delay_ms)
        outcome = self._record(operation, token, mode, self._effect(body, mode, hold, capture))
        first = mode.webhook_first and self._tells
        return Result(outcome=outcome, answer=send.answer, delay_ms=mode.delay_ms, webhook_first=first)

    def conclude(self, operation_id: str, failure: str | None) -> Outcome | None:
        """Books an operation that waited for its payer, who came, or (with a code) did not; None when none waits."""
        waits = self._known.waits_for_payer(operation_id)
        if waits is None:
            return None
        fingerprint, token, body = waits
        hold, capture = self._known.parents(body)
        mode = modes.mode_of(token)
        effect = self._effect(body, mode, hold, capture)
        if failure is not None:
            status: Status = "failed" if body.kind == "refund" else "declined"
            effect = Effect(status=status, amount=body.amount, decline_code=failure)
        self._connection.execute(QUERIES["action_delete"], (operation_id,))
        return self._record(
            Operation(operation_id=operation_id, fingerprint=fingerprint, body=body), token, mode, effect
        )

    def let_hold_end(self, operation_id: str) -> int:
        """Frees what is left of a hold and tells so; how much it was."""
        stored, hold = self._known.operation(operation_id), self._known.hold(provider_ref_for(operation_id))
        if stored is None or hold is None or not hold.remainder:
            return 0
        now_ms = webhooks.now_ms()
        self._connection.execute(QUERIES["hold_use"], (0, hold.remainder, hold.provider_ref))
        self._connection.execute(QUERIES["hold_end_insert"], (operation_id, hold.remainder, now_ms))
        if self._tells:
            event = webhooks.event_of_outcome(_ended(stored.outcome, hold.remainder))
            webhooks.tell(self._connection, event, stored.mode, now_ms)
        return hold.remainder

    def _wait_for_payer(self, operation: Operation, token: str | None, mode: modes.Mode) -> Outcome:
        now_ms = webhooks.now_ms()
        text = msgspec.json.encode(operation.body).decode()
        self._connection.execute(
            QUERIES["action_insert"],
            (operation.operation_id, operation.fingerprint, token, text, now_ms + limits.SIMULATOR_ACTION_MS),
        )
        outcome = waiting(operation.operation_id, operation.body, mode)
        if self._tells:
            webhooks.tell(self._connection, webhooks.event_of_outcome(outcome), mode, now_ms)
        return outcome

    def _effect(self, body: OperationBody, mode: modes.Mode, hold: Hold | None, capture: Capture | None) -> Effect:
        if body.kind == "evidence":
            return decide_evidence(self._connection, body)
        return decide_effect(body, mode, hold, capture)

    def _record(self, operation: Operation, token: str | None, mode: modes.Mode, effect: Effect) -> Outcome:
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
        booked_at_ms = webhooks.now_ms()
        if outcome.kind == "authorize" and outcome.status == "authorized":
            outcome = msgspec.structs.replace(outcome, authorized_until_ms=booked_at_ms + mode.hold_ms)
        self._connection.execute(
            QUERIES["operation_insert"],
            (outcome.operation_id, operation.fingerprint, token, outcome.kind, outcome.status,
             outcome.reference, outcome.amount, outcome.currency, body.parent, outcome.decline_code,
             booked_at_ms),
        )  # fmt: skip
        self._move_money(outcome, token, body.parent, effect)
        self._note_for_settlement(outcome, mode, booked_at_ms)
        if outcome.status == "submitted":
            keep_evidence(self._connection, operation, booked_at_ms, tells=self._tells)
        is_short = mode.hold_ms < limits.SIMULATOR_AUTHORIZATION_MS
        if outcome.authorized_until_ms is not None and is_short and not mode.hold_stays:
            self._connection.execute(QUERIES["hold_to_end_insert"], (outcome.operation_id, outcome.authorized_until_ms))
        if self._tells and outcome.kind != "evidence":
            webhooks.tell(self._connection, webhooks.event_of_outcome(outcome), mode, booked_at_ms)
        return outcome

    def _move_money(self, outcome: Outcome, token: str | None, parent: str | None, effect: Effect) -> None:
        execute = self._connection.execute
        money = (token, outcome.reference, outcome.currency, outcome.amount)
        if outcome.status == "authorized" and outcome.kind == "increment":
            execute(QUERIES["hold_grow"], (outcome.amount, parent))
        elif outcome.status == "authorized":
            execute(QUERIES["hold_insert"], (outcome.provider_ref, *money))
        elif effect.captured or effect.released:
            execute(QUERIES["hold_use"], (effect.captured, effect.released, parent))
        elif effect.refunded:
            execute(QUERIES["capture_give_back"], (effect.refunded, 0, parent))
        if outcome.status == "captured":
            execute(QUERIES["capture_insert"], (outcome.provider_ref, outcome.operation_id, *money))

    def _note_for_settlement(self, outcome: Outcome, mode: modes.Mode, booked_at_ms: int) -> None:
        """A refund that will fail never comes to a settlement: its money never leaves."""
        if outcome.status == "refunded" and mode.refund_failure is not None:
            due_at_ms = booked_at_ms + limits.SIMULATOR_REFUND_FAILS_AFTER_MS
            self._connection.execute(QUERIES["refund_to_fail_insert"], (outcome.operation_id, due_at_ms))
            return
        if outcome.status == "captured":
            line = ("charge", outcome.amount, fee_of(outcome.amount))
        elif outcome.status == "refunded":
            line = ("refund", -outcome.amount, 0)
        else:
            return
        kind, gross, fee = line
        self._connection.execute(
            QUERIES["unsettled_insert"],
            (kind, outcome.operation_id, outcome.reference, outcome.provider_ref, outcome.currency, gross, fee,
             booked_at_ms),
        )  # fmt: skip

    def _sends(self, operation: Operation, mode: modes.Mode) -> int:
        if not mode.is_counted:
            return 1
        row = self._connection.execute(
            QUERIES["sighting_count_send"], (operation.operation_id, operation.fingerprint)
        ).fetchall()[0]
        return int(row[0])


def _ended(authorized: Outcome, released: int) -> Outcome:
    """What an authorization says of itself once its hold has ended."""
    return msgspec.structs.replace(authorized, status="voided", amount=released, decline_code="expired")


def _card_of(body: OperationBody, parent: Hold | Capture | None) -> str | None:
    if body.parent is None:
        return body.token
    return None if parent is None else parent.token

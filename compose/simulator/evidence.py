"""Evidence against a dispute: taken once, kept in the book, and decisive where it says so, as in Stripe's test mode."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Final

from compose.simulator import webhooks
from compose.simulator.operations import modes
from compose.simulator.operations.effects import Effect
from compose.simulator.operations.nouns import provider_ref_for
from compose.simulator.statements import QUERIES

if TYPE_CHECKING:
    import sqlite3

    from compose.simulator.operations.nouns import Operation, OperationBody

#: texts that decide a dispute when it is closed, whatever the lever says
_VERDICTS: Final = {"winning_evidence": "won", "losing_evidence": "lost"}


def decide_evidence(connection: sqlite3.Connection, body: OperationBody) -> Effect:
    """Whether the dispute still takes it: it is open, and nothing was said before."""
    row = connection.execute(QUERIES["dispute_fetch"], (body.parent,)).fetchone()
    problem = None
    if row is None:
        problem = "unknown_dispute"
    elif (row[2], row[3], row[4]) != (body.reference, body.amount, body.currency):
        problem = "dispute_mismatch"
    elif row[-1] is not None:
        problem = "dispute_closed"
    elif connection.execute(QUERIES["evidence_fetch"], (body.parent,)).fetchone() is not None:
        problem = "evidence_submitted"
    if problem is not None:
        return Effect(status="failed", amount=body.amount, decline_code=problem)
    return Effect(status="submitted", amount=body.amount)


def keep_evidence(connection: sqlite3.Connection, operation: Operation, now_ms: int, *, tells: bool) -> None:
    """The dispute is under review from now on."""
    body = operation.body
    content = json.dumps(body.evidence, ensure_ascii=False)
    connection.execute(QUERIES["evidence_insert"], (body.parent, operation.operation_id, content, now_ms))
    if not tells:
        return
    _, charge, reference, amount, currency, fee, reason, _ = connection.execute(
        QUERIES["dispute_fetch"], (body.parent,)
    ).fetchone()
    data = {
        "dispute_id": body.parent,
        "reference": reference,
        "operation_id": charge,
        "provider_ref": provider_ref_for(charge),
        "amount": amount,
        "currency": currency,
        "fee": fee,
        "reason": reason,
        "status": "under_review",
        "funds": "withdrawn",
    }
    event = webhooks.Event(
        type="dispute.updated",
        identity=f"{body.parent}:under_review",
        reference=reference,
        operation_id=str(body.parent),
        data=data,
    )
    webhooks.tell(connection, event, modes.APPROVE, now_ms)


def verdict_of(connection: sqlite3.Connection, dispute_id: str, asked: str) -> str:
    """How a dispute ends: as its evidence says, if it says so, else as was asked."""
    row = connection.execute(QUERIES["evidence_fetch"], (dispute_id,)).fetchone()
    texts = json.loads(row[0]).values() if row is not None else ()
    return next((_VERDICTS[text] for text in texts if text in _VERDICTS), asked)

"""Disputes of the account: funds are withdrawn with a fee, evidence is submitted once, and a verdict ends it."""

from __future__ import annotations

from http import HTTPStatus
from typing import TYPE_CHECKING, Final

from compose.stripe_simulator import balance
from compose.stripe_simulator.problems import Object, Refused

if TYPE_CHECKING:
    from compose.stripe_simulator.book import Answer, Transaction

_FEE: Final = 1_500
_EVIDENCE_S: Final = 7 * 86_400  # from the opening on
_VERDICTS: Final = frozenset({"won", "lost"})


def open_dispute(made: Transaction, intent: Object, amount: int, reason: str) -> Answer:
    """The payer's bank takes the money back, as far as it was taken."""
    if not 0 < amount <= intent["amount_received"]:
        raise Refused("amount_too_large", "More than was taken.")
    name = made.new_id("dp")
    dispute: Object = {
        "id": name, "object": "dispute", "payment_intent": intent["id"], "charge": intent["latest_charge"],
        "metadata": {}, "amount": amount, "currency": intent["currency"], "reason": reason, "status": "needs_response",
        "evidence": {}, "evidence_details": {"due_by": made.now + _EVIDENCE_S, "submission_count": 0},
        "balance_transactions": [], "created": made.now,
    }  # fmt: skip
    made.tell("charge.dispute.created", made.keep(dispute))
    taken = balance.book_line(made, "dispute", name, intent | {"metadata": {}}, -amount, _FEE)
    dispute["balance_transactions"] = [_move(taken)]
    made.tell("charge.dispute.funds_withdrawn", made.keep(dispute))
    return HTTPStatus.OK, dispute


def update(made: Transaction, name: str, form: Object) -> Answer:
    """POST /v1/disputes/{id}: evidence; ``submit`` sends it for good."""
    dispute = made.fetch("dispute", name)
    if dispute["status"] != "needs_response":
        raise Refused("dispute_already_submitted", f"This dispute is {dispute['status']}.")
    dispute["metadata"] |= form.get("metadata") or {}
    dispute["evidence"] |= form.get("evidence") or {}
    if form.get("submit", "true") == "true":
        dispute["status"] = "under_review"
        dispute["evidence_details"] |= {"submission_count": 1}
    made.tell("charge.dispute.updated", made.keep(dispute))
    return HTTPStatus.OK, dispute


def close(made: Transaction, name: str, verdict: str) -> Answer:
    """The bank decides: what was won comes back, the fee does not."""
    dispute = made.fetch("dispute", name)
    if dispute["status"] in _VERDICTS or verdict not in _VERDICTS:
        raise Refused("parameter_invalid_string", f"This dispute is {dispute['status']}.")
    dispute["status"] = verdict
    if verdict == "won":
        intent = made.fetch("payment_intent", dispute["payment_intent"])
        back = balance.book_line(made, "dispute_reversal", name, intent | {"metadata": {}}, dispute["amount"])
        dispute["balance_transactions"].append(_move(back))
        made.tell("charge.dispute.funds_reinstated", made.keep(dispute))
    made.tell("charge.dispute.closed", made.keep(dispute))
    return HTTPStatus.OK, dispute


def _move(line: Object) -> Object:
    return {name: line[name] for name in ("id", "amount", "fee", "net", "currency", "created")}

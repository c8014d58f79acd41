"""Settlement lines that were matched to an attempt: its money matures once, differences wait in suspense.

Short, over and duplicate lines never change what a merchant gets: the platform stands in until a person has looked.
After its lines a processor owes what they pay out, gross less fee, whatever we expected (invariant 14). What a line of
gross g and fee f adds, of a capture of A that left A - f0 as receivable and the accrued fee f0 as expense:

    line                            receivable       expense  suspense  postings
    first, g = A (or parts = A)     f0 - f           f - f0   0         settled
    first, short or over            g - A + f0 - f   f - f0   A - g     settled, settlement_short or settlement_over
    later part, duplicate           g - f            f        -g        settlement_duplicate, settlement_fee
    refund, first                   -f               f        0         settlement_fee
    resent, or one for a person     0                0        0         none: owners are not told

So over all lines, in any order, suspense is what was paid less what was expected, and the expense is all fees taken.
The money of a duplicate waits in suspense; its fee was kept, and what comes back of it has a line of its own.
Source: reference 3.5 and trap 10.
"""

from __future__ import annotations

from typing import Any, Final

from dataflows.payments.domain.decision import Context, Decision, Payment
from dataflows.payments.domain.fact import changed, parties
from dataflows.payments.domain.ledger import ledger
from dataflows.payments.domain.ledger.posting import Posting
from dataflows.payments.domain.payment_intent import advance
from dataflows.payments.domain.policies.fees import fee_minor
from schemas.payments.records import ProcessorAttempt
from schemas.records import Command, Rejection
from schemas.refusals import wrong_value

_MOVED: Final = frozenset({"captured", "refunded"})


def decide_line(payment: Payment, command: Command, context: Context) -> Decision | Rejection:
    """The payment after one matched line. A line is one fact: its identity was checked before."""
    line: dict[str, Any] = command.payload
    attempt = payment.attempts.get(line["attempt"])
    if attempt is None or attempt.operation_id != line["operation_id"]:
        return Rejection("not_found", "No such attempt.", {})
    refusal = _refusal(attempt, line)
    if refusal is not None:
        return refusal
    postings = (*_differences(payment, attempt, line), *_fee_of_its_own(payment, attempt, line))
    if line["finding"] == "duplicate":  # whether or not we have seen the first line
        return Decision(intent=advance(payment.intent, context), attempt=attempt, postings=postings)
    matured = _matured(payment, attempt, context)
    settled = changed(attempt, context, settled_line=line["line_id"])
    difference = line["fee"] - fee_minor(attempt.amount, context.fees.processor_bps) if _takes_money(attempt) else 0
    if matured or difference:
        sides = parties(payment, attempt)
        postings = (ledger.settled(attempt.operation_id, matured, difference, sides), *postings)
    intent = advance(payment.intent, context, amount_pending=payment.intent.amount_pending - matured)
    return Decision(intent=intent, attempt=settled, postings=postings)


def _refusal(attempt: ProcessorAttempt, line: dict[str, Any]) -> Rejection | None:
    came_back = attempt.kind == "refund" and attempt.final  # it was paid and failed later: settlements have both
    if attempt.status not in _MOVED and not came_back:
        return Rejection("contradicts_attempt", "The attempt has moved no money.", {"current_state": attempt.status})
    if line["currency"] != attempt.currency:
        return Rejection("contradicts_attempt", "The line is of another currency.", {"currency": attempt.currency})
    if (line["finding"] == "matched") == (line["difference"] > 0):
        return wrong_value("payload.difference", "must be above zero where a line is not matched, and nowhere else")
    if line["finding"] != "duplicate" and attempt.settled_line is not None:
        return Rejection("stale_fact", "The attempt is settled already.", {"settled_line": attempt.settled_line})
    return None


def _differences(payment: Payment, attempt: ProcessorAttempt, line: dict[str, Any]) -> tuple[Posting, ...]:
    """The difference of a line: a charge paid twice is a gain, a refund taken twice a loss; short and over as named."""
    finding = line["finding"]
    if finding == "matched":
        return ()
    is_gain = line["gross"] > 0 if finding == "duplicate" else finding == "over"
    gained = line["difference"] if is_gain else -line["difference"]
    reference = f"{attempt.processor}:{line['line_id']}:{finding}"
    return (ledger.settlement_difference(reference, f"settlement_{finding}", gained, parties(payment, attempt)),)


def _fee_of_its_own(payment: Payment, attempt: ProcessorAttempt, line: dict[str, Any]) -> tuple[Posting, ...]:
    """The fee of a further line, a later part or a refund, for which no fee was accrued."""
    if line["fee"] == 0 or (_takes_money(attempt) and line["finding"] != "duplicate"):
        return ()
    reference = f"{attempt.processor}:{line['line_id']}:fee"
    return (ledger.settlement_fee(reference, line["fee"], parties(payment, attempt)),)


def _matured(payment: Payment, attempt: ProcessorAttempt, context: Context) -> int:
    """The pending share of this capture; with the last unsettled capture all that is left."""
    if not _takes_money(attempt):
        return 0
    others = [a for a in payment.attempts.values() if a.status == "captured" and a.settled_line is None]
    pending = payment.intent.amount_pending
    return pending if others == [attempt] else min(context.fees.merchant_share(attempt.amount), pending)


def _takes_money(attempt: ProcessorAttempt) -> bool:
    return attempt.status == "captured"

"""What reconciliation tells the owners, as commands. Equal facts have equal identity and hash, whenever they are told.

Nothing else here changes money: a line or a payout is an effect only after the owner of its partition decided it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from msgspec import Struct

from dataflows.payments.domain.ledger.ledger import SETTLEMENT_FEE
from reconciliation.payments.settlement import merchant_payouts
from schemas.payments import facts
from schemas.records import Command

#: type of a bank's line that undoes a payout which had been received
BANK_RETURN: Final = "bank_return"
#: type of the part of a line that leads from its currency to that of its settlement
EXCHANGE: Final = "exchange"


class Due(Struct, frozen=True, kw_only=True):
    """A line of which an owner has to be told."""

    processor: str
    line_id: str
    type: str
    operation_id: str | None
    currency: str
    gross: int
    fee: int
    difference: int
    net: int
    net_currency: str
    finding: str | None
    matched: str | None
    intent_id: str | None
    attempt: int | None
    counterpart: str | None
    told: int = 1  # how often its owner is told of it: more than once after a refusal


def command_of(due: Due, issued_at: int) -> Command:
    """The command for one line that is due."""
    if due.finding is not None:
        return _line_command(due, issued_at)
    if (made := _JOURNALS.get(due.type)) is not None:
        return made(due, issued_at)
    if (due.counterpart or "").startswith(merchant_payouts.COUNTERPART):
        bank = due.processor.removeprefix("bank:")
        return merchant_payouts.outcome_command(bank, str(due.matched), due.gross, due.currency, issued_at)
    return _received_command(due, issued_at)


def late_fee_command(due: Due, issued_at: int) -> Command:
    """The fee of a line that was decided when owners did not book it with the line. Its reference is theirs: once."""
    p, ccy = due.processor, due.currency
    entries = _transfer(f"processor_fee_expense:{p}", f"processor_receivable:{p}", due.fee, ccy)
    return _journal_command(f"{p}:{due.line_id}:fee", SETTLEMENT_FEE, entries, issued_at)


def outcome_command(
    processor: str, operation_id: str, payload: dict[str, object], intent_id: str, issued_at: int
) -> Command:
    """The fact that a settlement line proves, with the identity that it has at every other door."""
    key = facts.outcome_key(operation_id, str(payload["status"]))
    return _command("record_attempt_outcome", facts.processor_scope(processor), key, intent_id, payload, issued_at)


def _line_command(due: Due, issued_at: int) -> Command:
    payload: dict[str, object] = {
        "line_id": due.line_id,
        "attempt": due.attempt,
        "operation_id": due.matched,
        "finding": due.finding,
        "gross": due.gross,
        "fee": due.fee,
        "difference": due.difference,
        "currency": due.currency,
    }
    return _command(
        "record_settlement_line", f"settlement:{due.processor}", due.line_id, str(due.intent_id), payload, issued_at
    )


def _payout_command(due: Due, issued_at: int) -> Command:
    """The processor announced a payout: what it owed us is on its way to the bank."""
    p, ccy = due.processor, due.net_currency
    entries = _transfer(f"payout_in_transit:{p}", f"processor_receivable:{p}", due.gross, ccy)
    return _journal_command(f"payout:{p}:{due.line_id}", "payout_announced", entries, issued_at)


def _exchange_command(due: Due, issued_at: int) -> Command:
    """What a processor owed in the currency of the payment it owes in that of its payout, less the fee that it kept."""
    p, paid, settled = due.processor, due.currency, due.net_currency
    entries = [
        *_transfer("fx_clearing", f"processor_receivable:{p}", due.gross, paid),
        *_transfer(f"processor_receivable:{p}", "fx_clearing", due.net + due.fee, settled),
        *_transfer(f"processor_fee_expense:{p}", f"processor_receivable:{p}", due.fee, settled),
    ]
    return _journal_command(f"exchange:{p}:{due.line_id}", "settlement_exchanged", entries, issued_at, due.told)


def _suspense_command(due: Due, issued_at: int) -> Command:
    """A line of which nobody knows what it is: its money moved, and waits for a person."""
    p, ccy = due.processor, due.net_currency
    entries = _transfer(f"processor_receivable:{p}", f"recon_suspense:{p}", due.gross, ccy)
    return _journal_command(f"unknown_line:{p}:{due.line_id}", "settlement_unknown", entries, issued_at, due.told)


def _returned_command(due: Due, issued_at: int) -> Command:
    """A payout came back: the processor owes it to us again."""
    p, ccy = due.processor, due.net_currency
    entries = _transfer(f"processor_receivable:{p}", f"payout_in_transit:{p}", due.gross, ccy)
    return _journal_command(f"payout_returned:{p}:{due.matched}", "payout_returned", entries, issued_at)


def _received_command(due: Due, issued_at: int) -> Command:
    """The bank shows a payout. One payout is received once, whatever statement says so."""
    entries = _transfer(
        f"cash:{due.processor.removeprefix('bank:')}", f"payout_in_transit:{due.counterpart}", due.gross, due.currency
    )
    reference = f"payout_received:{due.counterpart}:{due.matched}"
    return _journal_command(reference, "payout_received", entries, issued_at)


def _taken_back_command(due: Due, issued_at: int) -> Command:
    """The bank gave a received payout back: what the processor says of it (``payout_returned``) is even again."""
    entries = _transfer(
        f"cash:{due.processor.removeprefix('bank:')}", f"payout_in_transit:{due.counterpart}", due.gross, due.currency
    )
    reference = f"payout_taken_back:{due.counterpart}:{due.matched}"
    return _journal_command(reference, "payout_taken_back", entries, issued_at)


def _journal_command(
    reference: str, kind: str, entries: list[dict[str, Any]], issued_at: int, told: int = 1
) -> Command:
    """The entry. Told anew it is another command: a refusal is kept for good. By its reference it is posted once."""
    payload: dict[str, object] = {"reference": reference, "kind": kind, "entries": entries, "note": None}
    key = reference if told == 1 else f"{reference}:{told}"
    return _command("post_journal", facts.RECONCILIATION_SCOPE, key, facts.journal_id(reference), payload, issued_at)


def _transfer(debit: str, credit: str, amount: int, currency: str) -> list[dict[str, Any]]:
    """From credit to debit; below zero it is the other way round, and nothing for nothing."""
    if amount == 0:
        return []
    if amount < 0:
        debit, credit, amount = credit, debit, -amount
    return [
        {"account_id": f"{debit}:{currency}", "debit": amount, "credit": 0, "currency": currency},
        {"account_id": f"{credit}:{currency}", "debit": 0, "credit": amount, "currency": currency},
    ]


def _command(
    operation: str, scope: str, key: str, aggregate_key: str, payload: dict[str, object], issued_at: int
) -> Command:
    return facts.fact_command(
        operation,
        scope=scope,
        key=key,
        aggregate_key=aggregate_key,
        payload=payload,
        trace_id=facts.trace_of(scope, key),
        issued_at=issued_at,
    )


#: lines that are a ledger transaction of their own, by type; other bank entries say by their counterpart what they are
_JOURNALS: Final[dict[str, Callable[[Due, int], Command]]] = {
    "payout": _payout_command,
    "payout_reversal": _returned_command,
    "other": _suspense_command,
    EXCHANGE: _exchange_command,
    BANK_RETURN: _taken_back_command,
}

"""What one committed event becomes in every table. Pure: the same event gives the same rows for ever.

Rule: no payment method, metadata or other personal data reaches analytical storage (spec 1, section 5).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from schemas.fields.currency import EXPONENTS
from schemas.payments.records import Dispute, MerchantAccount, PaymentIntent, Payout, ProcessorAttempt, Refund
from sinks.clickhouse.tables import analytical

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from msgspec import Struct

    from schemas.records import Event
    from sinks.clickhouse.tables import Row, TableRows

#: ledger lines are numbered from here within their transaction, as in Postgres
FIRST_LINE: Final = 0


def add_event(rows: TableRows, partition: int, event: Event) -> None:
    """Appends the rows of one event, in the column order of ``tables``.

    A journal entry belongs to no payment: its event has ledger lines only. Events of version 1 have neither refund nor
    dispute.
    """
    body: dict[str, Any] = event.body
    intent, attempt, txns = body["payment_intent"], body["processor_attempt"], body["ledger_txns"]
    place = (partition, event.seq)
    lines = _ledger_rows(place, event, txns) if txns else ()
    rows["events"].append(
        (
            *place,
            event.event_id,
            event.event_type,
            event.schema_version,
            event.occurred_at,
            event.trace_id,
            event.aggregate_key,
            event.version,
            event.scope,
            event.operation,
            intent["state"] if intent else "",
            intent["currency"] if intent else "",
            attempt["status"] if attempt else "",
            len(txns),
            len(lines),
        )
    )
    if intent:
        rows["payment_intents"].append((*place, EXPONENTS[intent["currency"]], *_INTENT(intent)))
    for changed in (body.get("caused_by"), attempt):
        if changed:
            beside = (event.version, event.scope, EXPONENTS[changed["currency"]])
            rows["processor_attempts"].append((*place, *beside, *_ATTEMPT(changed)))
    if refund := body.get("refund"):
        rows["refunds"].append((*place, EXPONENTS[refund["currency"]], *_REFUND(refund)))
    if dispute := body.get("dispute"):
        rows["disputes"].append((*place, EXPONENTS[dispute["currency"]], *_DISPUTE(dispute)))
    if account := body.get("account"):
        rows["merchant_accounts"].append((*place, *_ACCOUNT(account)))
    if payout := body.get("payout"):
        rows["payouts"].append((*place, EXPONENTS[payout["currency"]], *_PAYOUT(payout)))
    rows["ledger_lines"].extend(lines)


def _ledger_rows(place: tuple[int, int], event: Event, txns: Iterable[dict[str, Any]]) -> list[Row]:
    return [
        (
            *place,
            txn["txn_id"],
            line,
            txn["reference"],
            txn["kind"],
            entry["account_id"],
            entry["debit"],
            entry["credit"],
            entry["currency"],
            EXPONENTS[entry["currency"]],
            event.scope,
            event.aggregate_key,
            txn["effective_at"],
            event.occurred_at,
        )
        for txn in txns
        for line, entry in enumerate(txn["entries"], FIRST_LINE)
    ]


def _fields(record: type[Struct]) -> Callable[[dict[str, Any]], list[Any]]:
    """What analytics has of a record in an event; an older event does not say what came later."""
    names = [field.name for field in analytical(record)]
    return lambda said: [said.get(name) for name in names]


_INTENT, _ATTEMPT, _REFUND = _fields(PaymentIntent), _fields(ProcessorAttempt), _fields(Refund)
_DISPUTE, _ACCOUNT, _PAYOUT = _fields(Dispute), _fields(MerchantAccount), _fields(Payout)

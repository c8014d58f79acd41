"""What one committed event becomes in every table. Pure: the same event gives the same rows for ever.

Rule: no payment method, metadata or other personal data reaches analytical storage (spec 1, section 5).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from schemas.currency import EXPONENTS

if TYPE_CHECKING:
    from collections.abc import Iterable

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
        rows["payment_intents"].append(_intent_row(place, intent))
    for changed in (body.get("caused_by"), attempt):
        if changed:
            rows["processor_attempts"].append(_attempt_row(place, event, changed))
    if refund := body.get("refund"):
        rows["refunds"].append(_refund_row(place, refund))
    if dispute := body.get("dispute"):
        rows["disputes"].append(_dispute_row(place, dispute))
    if account := body.get("account"):
        rows["merchant_accounts"].append(_account_row(place, account))
    if payout := body.get("payout"):
        rows["payouts"].append(_payout_row(place, payout))
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


def _intent_row(place: tuple[int, int], intent: dict[str, Any]) -> Row:
    return (
        *place,
        intent["id"],
        intent["version"],
        intent["merchant_id"],
        intent["amount"],
        intent["currency"],
        EXPONENTS[intent["currency"]],
        intent["state"],
        intent["capture_method"],
        intent["processor"],
        intent["amount_capturable"],
        intent["amount_received"],
        intent["amount_refunded"],
        intent["amount_disputed"],
        intent["last_payment_error"],
        intent["cancellation_reason"],
        intent["latest_attempt"],
        intent["created_at"],
        intent["updated_at"],
    )


def _attempt_row(place: tuple[int, int], event: Event, attempt: dict[str, Any]) -> Row:
    return (
        *place,
        attempt["intent_id"],
        attempt["attempt"],
        event.version,
        event.scope,
        attempt["kind"],
        attempt["status"],
        attempt["operation_id"],
        attempt["processor"],
        attempt["amount"],
        attempt["currency"],
        EXPONENTS[attempt["currency"]],
        attempt["parent_ref"],
        attempt["final"],
        attempt["provider_ref"],
        attempt["error_code"],
        attempt["created_at"],
        attempt["updated_at"],
    )


def _refund_row(place: tuple[int, int], refund: dict[str, Any]) -> Row:
    return (
        *place,
        refund["id"],
        refund["version"],
        refund["intent_id"],
        refund["merchant_id"],
        refund["attempt"],
        refund["amount"],
        refund["currency"],
        EXPONENTS[refund["currency"]],
        refund["state"],
        refund["reason"],
        refund["failure_reason"],
        refund["from_pending"],
        refund["created_at"],
        refund["updated_at"],
        refund.get("pending_reason"),  # of events before version 4, nobody kept it
    )


def _dispute_row(place: tuple[int, int], dispute: dict[str, Any]) -> Row:
    return (
        *place,
        dispute["id"],
        dispute["version"],
        dispute["intent_id"],
        dispute["merchant_id"],
        dispute["processor"],
        dispute["provider_ref"],
        dispute["amount"],
        dispute["currency"],
        EXPONENTS[dispute["currency"]],
        dispute["fee"],
        dispute["reason"],
        dispute["state"],
        dispute["funds"],
        dispute["created_at"],
        dispute["updated_at"],
    )


def _account_row(place: tuple[int, int], account: dict[str, Any]) -> Row:
    names = ("id", "version", "merchant_id", "state", "created_at", "updated_at")
    return (*place, *(account[name] for name in names))


def _payout_row(place: tuple[int, int], payout: dict[str, Any]) -> Row:
    return (
        *place,
        payout["id"],
        payout["version"],
        payout["account_id"],
        payout["merchant_id"],
        payout["amount"],
        payout["currency"],
        EXPONENTS[payout["currency"]],
        payout["state"],
        payout["failure_reason"],
        payout["created_at"],
        payout["updated_at"],
    )

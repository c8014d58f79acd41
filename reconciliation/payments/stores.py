"""Payments in the comparison of Postgres, ClickHouse and Kafka: what is counted of an event (invariant 18)."""

from __future__ import annotations

from typing import Any, Final

from reconciliation.contract.store_comparison import HOUR_US, StoreComparison, Totals, count
from schemas.records import Event
from sinks.postgres.sql_files import queries

_SQL: Final = queries("reconciliation.payments", "stores.sql")
_SIDES: Final = (
    *("clickhouse_events", "clickhouse_ledger", "clickhouse_intents", "clickhouse_attempts"),
    *("clickhouse_refunds", "clickhouse_disputes", "clickhouse_payouts", "clickhouse_accounts"),
    *("clickhouse_made_refunds", "clickhouse_made_disputes", "clickhouse_made_journal", "clickhouse_made_payouts"),
)
_CURRENT: Final = (*("clickhouse_current_refunds", "clickhouse_current_disputes", "clickhouse_current_payouts"),)


def add_event(totals: Totals, event: Event) -> None:
    """Counts one event as every store counts it."""
    body: dict[str, Any] = event.body
    intent = body["payment_intent"]
    hour = event.occurred_at // HOUR_US
    _count_event(totals, event)
    if intent:
        versions = totals["intent_version", intent["updated_at"] // HOUR_US, intent["currency"], intent["state"]]
        count(versions, intent["amount_received"], intent["amount_capturable"])
    for attempt in (body["processor_attempt"], body.get("caused_by")):
        if attempt:
            place = totals["attempt_version", attempt["updated_at"] // HOUR_US, attempt["currency"], attempt["status"]]
            count(place, attempt["amount"], attempt["attempt"])
    _add_parts(totals, body)
    if event.operation == "post_journal":
        count(totals["journal_entry", hour, "", ""])
    for txn in body["ledger_txns"]:
        for entry in txn["entries"]:
            place = totals["ledger_line", txn["effective_at"] // HOUR_US, entry["currency"], txn["kind"]]
            count(place, entry["debit"], entry["credit"])


def _count_event(totals: Totals, event: Event) -> None:
    """The event itself, with the currency of its payment at that time."""
    body: dict[str, Any] = event.body
    intent = body["payment_intent"]
    currency = intent["currency"] if intent else ""
    count(totals["event", event.occurred_at // HOUR_US, currency, event.operation], event.seq)


def _add_parts(totals: Totals, body: dict[str, Any]) -> None:
    """Counts what an event carries besides the payment; events of older versions carry less."""
    for what in ("refund", "dispute", "payout"):
        if part := body.get(what):
            place = totals[f"{what}_version", part["updated_at"] // HOUR_US, part["currency"], part["state"]]
            count(place, part["amount"], part["version"])
            if part["version"] == 1:
                kind = part["processor"] if what == "dispute" else ""
                count(totals[what, part["created_at"] // HOUR_US, part["currency"], kind], part["amount"])
    if account := body.get("account"):
        count(totals["account_version", account["updated_at"] // HOUR_US, "", account["state"]], account["version"])


STORES: Final = StoreComparison(
    service="payments",
    clickhouse=tuple(_SQL[name] for name in _SIDES),
    clickhouse_current=tuple(_SQL[name] for name in _CURRENT),
    add_event=add_event,
    decoded=(_SQL["updated_events"], _count_event),
)

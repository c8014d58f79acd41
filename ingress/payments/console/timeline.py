"""The timeline of a payment: rows of many tables as entries in one order. Pure: no I/O and no clock.

Two entries of the same moment stand in the order of cause: the command, what it began, what came back, what was posted.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Final
from urllib.parse import urlencode

Row = Mapping[str, Any]
DETAIL: Final = "/console/detail"
_PROCESSOR_SCOPE: Final = "processor:"
_RANK: Final = ("command", "risk", "attempt", "refund", "dispute", "payout", "webhook", "posting", "settlement",
                "discrepancy", "case", "repair", "closing", "outcome", "delivery")  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """One thing that happened. ``facts`` are shown when it is opened, ``more`` is loaded then."""

    at: datetime
    kind: str
    title: str
    id: str
    state: str | None = None
    amount: int | None = None
    currency: str | None = None
    by: str | None = None
    link: str | None = None
    facts: Sequence[tuple[str, Any]] = ()
    lines: Sequence[Row] = ()
    more: Sequence[tuple[str, str]] = field(default_factory=list)  # what it is, where it is read


def ordered(entries: Sequence[Entry]) -> list[Entry]:
    """By time; of one moment, by cause."""
    return sorted(entries, key=lambda entry: (entry.at, _RANK.index(entry.kind), entry.id))


def command(row: Row) -> Entry:
    """A command that was decided: a caller's, or a fact of a processor or of reconciliation."""
    is_fact = row["merchant_id"].startswith(_PROCESSOR_SCOPE) or row["merchant_id"].startswith("ledger:")
    more = [("answer", detail_address("command", scope=row["merchant_id"], key=row["key"]))]
    if row["event_id"]:
        more.append(("event", detail_address("event", id=row["event_id"])))
    return Entry(
        at=row["created_at"],
        kind="command",
        title=row["operation"],
        id=row["request_id"],
        state=row["status"] if row["code"] is None else row["code"],
        by=row["merchant_id"],
        facts=(
            ("told by" if is_fact else "caller", row["merchant_id"]),
            ("idempotency key", row["key"]),
            ("request", row["request_id"]),
            ("signed by", row["signed_by"]),
            ("signed request", row["signed_request"]),
            ("event", row["event_id"]),
            ("place", f"partition {row['partition']}, offset {row['offset']}"),
        ),
        more=more,
    )


def attempt(row: Row) -> Entry:
    """A try to move money at a processor, with what became of it."""
    took_ms = round((row["updated_at"] - row["created_at"]).total_seconds() * 1_000)
    return Entry(
        at=row["created_at"],
        kind="attempt",
        title=f"{row['kind']} at {row['processor']}",
        id=row["operation_id"],
        state=row["status"],
        amount=row["amount"],
        currency=row["currency"],
        facts=(
            ("operation", row["operation_id"]),
            ("provider reference", row["provider_ref"]),
            ("works on", row["parent_ref"]),
            ("payment method", row["payment_method"]),
            ("route", row["route"]),
            ("error", row["error_code"]),
            ("last change after", f"{took_ms:,} ms"),
            ("sent", row["send_count"]),
            ("unknown answers", row["unknown_count"] or None),
            ("worker", row["dispatch"]),
            ("settled by line", row["settled_line"]),
        ),
    )


def risk(row: Row) -> Entry:
    """What rules or an operator said of a confirm."""
    return Entry(
        at=row["created_at"],
        kind="risk",
        title=f"risk score {row['score']}",
        id=f"risk-{row['attempt']}-{row['decided_by'] or 'rules'}",
        state=row["outcome"],
        by=row["decided_by"] or "rules",
        facts=(
            ("decided by", row["decided_by"] or f"policy version {row['policy_version']}"),
            *(
                (f"rule {one['rule']}{' in shadow' if one.get('shadow') else ''}", f"{one['detail']} ({one['score']})")
                for one in json.loads(row["reasons"])
            ),
        ),
    )


def payout(row: Row) -> Entry:
    """A payout to a merchant, as it is now, at the moment it was asked for."""
    return Entry(
        at=row["created_at"],
        kind="payout",
        title=f"payout to {row['destination']}",
        id=row["id"],
        state=row["state"],
        amount=-row["amount"],
        currency=row["currency"],
        facts=(
            ("payout", row["id"]),
            ("failure", row["failure_reason"]),
            ("version", row["version"]),
            ("last change", row["updated_at"]),
        ),
    )


def refund(row: Row) -> Entry:
    """A refund, as it is now, at the moment it was asked for."""
    return Entry(
        at=row["created_at"],
        kind="refund",
        title="refund",
        id=row["id"],
        state=row["state"],
        amount=-row["amount"],
        currency=row["currency"],
        facts=(
            ("refund", row["id"]),
            ("reason", row["reason"]),
            ("pending because", row["pending_reason"]),
            ("failure", row["failure_reason"]),
            ("attempt", row["attempt"]),
            ("version", row["version"]),
            ("last change", row["updated_at"]),
        ),
    )


def dispute(row: Row) -> Entry:
    """A dispute, as it is now, at the moment it was opened."""
    return Entry(
        at=row["created_at"],
        kind="dispute",
        title=f"dispute, funds {row['funds']}",
        id=row["id"],
        state=row["state"],
        amount=-row["amount"],
        currency=row["currency"],
        by=row["processor"],
        facts=(
            ("dispute", row["id"]),
            ("provider reference", row["provider_ref"]),
            ("reason", row["reason"]),
            ("fee", row["fee"]),
            ("evidence", row["evidence_state"]),
            ("evidence due by", row["evidence_due_by"]),
            ("version", row["version"]),
            ("last change", row["updated_at"]),
        ),
    )


def webhook(row: Row) -> Entry:
    """What a processor told, and what became of it."""
    return Entry(
        at=row["received_at"],
        kind="webhook",
        title=row["event_type"],
        id=row["provider_event_id"],
        state=row["state"],
        by=row["processor"],
        facts=(
            ("event", row["provider_event_id"]),
            ("about", row["reference"]),
            ("note", row["note"]),
            ("tries", row["tries"]),
            ("settled", row["settled_at"]),
        ),
        more=[("body as it came", detail_address("webhook", processor=row["processor"], id=row["provider_event_id"]))],
    )


def posting(row: Row) -> Entry:
    """A ledger transaction with its lines."""
    return Entry(
        at=row["recorded_at"],
        kind="posting",
        title=row["kind"],
        id=row["reference"],
        state="posted",
        amount=sum(line["debit"] for line in row["lines"]),
        currency=row["lines"][0]["currency"],
        facts=(
            ("reference", row["reference"]),
            ("transaction", str(row["txn_id"])),
            ("effective", row["effective_at"]),
            ("trace", row["trace_id"]),
        ),
        lines=row["lines"],
    )


def delivery(row: Row) -> Entry:
    """What the merchant was told."""
    return Entry(
        at=row["created_at"],
        kind="delivery",
        title=f"{row['operation']} to the merchant",
        id=row["id"],
        state=row["state"],
        by=row["url"],
        facts=(
            ("delivery", row["id"]),
            ("endpoint", row["endpoint_id"]),
            ("event", row["event_id"]),
            ("tries", row["tries"]),
            ("last status", row["last_status"]),
            ("last error", row["last_error"]),
            ("finished", row["finished_at"]),
        ),
    )


def detail_address(what: str, **query: str) -> str:
    """Where an entry says more when it is opened."""
    return f"{DETAIL}/{what}?{urlencode(query)}"

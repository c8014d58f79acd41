"""Entries of a timeline about what reconciliation found, and what persons made of it. Pure: no I/O and no clock."""

from __future__ import annotations

from typing import Any

from ingress.payments.console.timeline import Entry, Row, detail_address


def settlement(row: Row) -> Entry:
    """A line of a settlement report, at the moment it was taken in."""
    return Entry(
        at=row["ingested_at"],
        kind="settlement",
        title=row["type"],
        id=row["line_id"],
        state=row["class"],
        amount=row["net"],
        currency=row["net_currency"],
        by=f"{row['processor']}, {row['report_id']}",
        facts=(
            ("line", row["line_id"]),
            ("matched", row["matched"]),
            ("difference", row["difference"] or None),
            ("posting", row["posting"]),
            ("case", row["case_id"]),
        ),
        more=[("the line as it was read", detail_address("line", processor=row["processor"], id=row["line_id"]))],
    )


def discrepancy(row: Row) -> Entry:
    """What reconciliation misses."""
    return Entry(
        at=row["first_seen"],
        kind="discrepancy",
        title=f"reconciliation: {row['class']}",
        id=row["subject"],
        state=row["class"],
        amount=row["amount"],
        currency=row["currency"],
        by=row["processor"],
        link=f"/console/cases/{row['case_id']}" if row["case_id"] else None,
        facts=(("subject", row["subject"]), ("detail", row["detail"]), ("case", row["case_id"])),
    )


def case(row: Row) -> Entry:
    """Something that waits, or waited, for a person."""
    return Entry(
        at=row["opened_at"],
        kind="case",
        title=f"case: {row['kind']}",
        id=row["id"],
        state=row["state"],
        by=row["processor"],
        link=f"/console/cases/{row['id']}",
        facts=(
            ("about", row["reference"]),
            ("resolved", row["resolved_at"]),
            ("resolved by", row["resolved_by"]),
            ("note", row["note"]),
        ),
    )


def repair(row: Row) -> Entry:
    """A proposal to the ledger, and what two persons made of it."""
    return Entry(
        at=row["proposed_at"],
        kind="repair",
        title=f"repair: {row['template']}",
        id=row["id"],
        state=row["state"],
        by=row["author"],
        link=f"/console/repairs/{row['id']}",
        facts=(
            ("note", row["note"]),
            ("proposed by", row["author"]),
            ("decided by", row["decided_by"]),
            ("posted", row["posted_at"]),
            ("transaction", row["txn_id"]),
        ),
    )


def closing(row: Row) -> Entry:
    """A case that persons closed without money, and opened again perhaps."""
    return Entry(
        at=row["proposed_at"],
        kind="closing",
        title=f"closing: {row['reason']}",
        id=row["id"],
        state=row["state"],
        by=row["author"],
        link=f"/console/cases/{row['case_id']}",
        facts=(
            ("note", row["note"]),
            *_two_persons(row),
            ("opened again by", row["reopened_by"]),
            ("opened again", row["reopened_at"]),
            ("note of it", row["reopen_note"]),
        ),
    )


def outcome(row: Row) -> Entry:
    """What persons say became of an attempt, with evidence."""
    return Entry(
        at=row["proposed_at"],
        kind="outcome",
        title=f"outcome by hand: {row['status']}",
        id=row["id"],
        state=row["state"],
        amount=row["amount"],
        currency=row["currency"],
        by=row["author"],
        link=f"/console/cases/{row['case_id']}",
        facts=(
            ("attempt", row["operation_id"]),
            ("evidence", row["note"]),
            *_two_persons(row),
            ("recorded", row["recorded_at"]),
            ("refused", row["refusal"]),
        ),
    )


def _two_persons(row: Row) -> tuple[tuple[str, Any], ...]:
    """Who proposed, and who decided, when and why."""
    return (
        ("proposed by", row["author"]),
        ("decided by", row["decided_by"]),
        ("decided", row["decided_at"]),
        ("why", row["decision_note"]),
    )

"""Reads the whole story of a payment, an account or a journal entry: every table that says something of it, bounded.

Commands lead: their places are the places of their ledger transactions, their events those that merchants were told.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from ingress import limits
from ingress.payments.console import review_entries, timeline
from ingress.payments.console.timeline import Entry, Row
from schemas import errors

if TYPE_CHECKING:
    from ingress.console.state import Console

# A transaction's id is (partition, offset, number) in one bigint: so the owner writes it, dataflows.payments.workspace.
_OFFSETS_PER_PARTITION: Final = 2**44
_TXNS_PER_COMMAND: Final = 16


@dataclass(frozen=True, slots=True, kw_only=True)
class Story:
    """What is known of an aggregate; ``cut`` names the kinds of which there is more than is shown."""

    id: str
    payment: Row | None
    journal: Row | None
    account: Row | None
    metadata: dict[str, str]
    entries: list[Entry]
    cut: list[str]


async def of(console: Console, aggregate: str) -> Story:
    """The story of a payment, a merchant's account or a journal entry. Raises NotFound."""
    payments, journals, accounts, commands = await asyncio.gather(
        console.records("story_payment", id=aggregate),
        console.records("story_journal", id=aggregate),
        console.records("story_account", id=aggregate),
        _rows(console, "story_commands", id=aggregate),
    )
    if not (payments or journals or accounts or commands):
        raise errors.NotFound(f"Nothing is known of {aggregate}.")
    payment, journal, account = (next(iter(rows), None) for rows in (payments, journals, accounts))
    merchant = (payment or account or {"merchant_id": ""})["merchant_id"]
    parts = await _parts(console, aggregate, merchant, commands)
    if account:
        parts["payout"] = await _rows(console, "story_payouts", merchant=merchant)
    tied = await _tied(console, _references(aggregate, journal, parts))
    found = {"command": commands} | parts | tied
    return Story(
        id=aggregate,
        payment=payment,
        journal=journal,
        account=account,
        metadata=json.loads(payment["metadata"]) if payment else {},
        entries=timeline.ordered([_MAKERS[kind](row) for kind, rows in found.items() for row in rows]),
        cut=[kind for kind, rows in found.items() if len(rows) >= limits.CONSOLE_STORY_ROWS_MAX],
    )


async def _parts(console: Console, aggregate: str, merchant: str, commands: Sequence[Row]) -> dict[str, list[Any]]:
    """What belongs to the aggregate itself."""
    first = [_first_txn(row["partition"], row["offset"]) for row in commands]
    names = ("attempt", "risk", "refund", "dispute", "posting", "delivery")
    rows = await asyncio.gather(
        _rows(console, "story_attempts", id=aggregate),
        _rows(console, "story_risk", id=aggregate),
        _rows(console, "story_refunds", id=aggregate),
        _rows(console, "story_disputes", id=aggregate),
        _rows(console, "story_postings", first=first, last=[txn + _TXNS_PER_COMMAND - 1 for txn in first]),
        _rows(
            console,
            "story_deliveries",
            merchant=merchant,
            events=[row["event_id"] for row in commands if row["event_id"]],
        ),
    )
    return dict(zip(names, rows, strict=True))


async def _tied(console: Console, references: list[str]) -> dict[str, list[Any]]:
    """What others say of it: processors, reports, reconciliation, and people."""
    webhooks, lines, discrepancies, cases = await asyncio.gather(
        _rows(console, "story_webhooks", references=references),
        _rows(console, "story_lines", references=references),
        _rows(console, "story_discrepancies", references=references),
        _rows(console, "story_cases", references=references),
    )
    # Cases are opened about lines as well as about what the lines tell of.
    about_lines = [row["line_id"] for row in lines] + [row["subject"] for row in discrepancies]
    known = {row["id"] for row in cases}
    more = await _rows(console, "story_cases", references=about_lines) if about_lines else []
    cases += [row for row in more if row["id"] not in known]
    told = {"webhook": webhooks, "settlement": lines, "discrepancy": discrepancies, "case": cases}
    return told | await _decided(console, [row["id"] for row in cases])


async def _decided(console: Console, cases: list[str]) -> dict[str, list[Any]]:
    """What persons made of the cases."""
    queries = {"repair": "story_repairs", "closing": "story_closings", "outcome": "story_outcomes"}
    if not cases:
        return {kind: [] for kind in queries}
    rows = await asyncio.gather(*(_rows(console, query, cases=cases) for query in queries.values()))
    return dict(zip(queries, rows, strict=True))


def _references(aggregate: str, journal: Row | None, parts: dict[str, list[Any]]) -> list[str]:
    """All names under which others may speak of the aggregate."""
    found = [aggregate]
    if journal is not None:  # "repair:<proposal>"
        found = [journal["reference"], journal["reference"].partition(":")[2]]
    for kind in ("refund", "dispute", "payout"):
        found += [row["id"] for row in parts.get(kind, [])]
    found += [row["operation_id"] for row in parts["attempt"]]
    found += [row["provider_ref"] for kind in ("attempt", "dispute") for row in parts[kind] if row["provider_ref"]]
    return list(dict.fromkeys(found))


def _first_txn(partition: int, offset: int) -> int:
    return (partition * _OFFSETS_PER_PARTITION + offset) * _TXNS_PER_COMMAND


async def _rows(console: Console, query: str, **parameters: Any) -> list[dict[str, Any]]:
    return await console.records(query, **parameters, limit=limits.CONSOLE_STORY_ROWS_MAX)


_MAKERS: Final[dict[str, Callable[[Row], Entry]]] = {
    "command": timeline.command,
    "attempt": timeline.attempt,
    "risk": timeline.risk,
    "payout": timeline.payout,
    "refund": timeline.refund,
    "dispute": timeline.dispute,
    "posting": timeline.posting,
    "delivery": timeline.delivery,
    "webhook": timeline.webhook,
    "settlement": review_entries.settlement,
    "discrepancy": review_entries.discrepancy,
    "case": review_entries.case,
    "repair": review_entries.repair,
    "closing": review_entries.closing,
    "outcome": review_entries.outcome,
}

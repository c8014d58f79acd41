"""The queues (work for people), the board (what does not reconcile) and the trial balance."""

from __future__ import annotations

import asyncio
import json
import secrets
from datetime import UTC, datetime
from typing import Any, Final

from starlette.requests import Request
from starlette.responses import Response

from ingress import limits as ingress_limits
from ingress.console import visit as visits
from ingress.http.parts import parts_of
from ingress.operators import cases
from ingress.operators.cases import Cases
from ingress.payments.console.totals import Totals
from schemas import errors, limits
from schemas.fields.currency import is_currency
from schemas.payments import limits as payments_limits

QUEUES: Final = {
    "cases": "Open cases",
    "attempts": "Manual review",
    "unknown": "Unknown outcome",
    "parked": "Parked commands",
    "webhooks": "Early webhooks",
    "refused": "Refused facts",
    "review": "Risk review",
}
_HOUR_MIN: Final = 60
_KEY_BYTES: Final = 16
_BOUNDS: Final = {"counted": ingress_limits.CONSOLE_COUNTED_MAX, "refused": ingress_limits.CONSOLE_REFUSED_FACTS_MAX}

router: Final = visits.router()


@router.get("")
async def overview(request: Request) -> Response:
    """What waits, what does not reconcile, and whether everything runs: the first page of a day, but of guests."""
    found = await visits.visit(request)
    if found.session is not None and (guests := found.console.sessions.guests_of(found.session)):
        return visits.go(guests.home)
    async with visits.reading_of(request, "overview", "overview") as visit:
        console = visit.console
        counts, discrepancies, accounts, totals, partitions, processors = await asyncio.gather(
            console.records("queue_counts", **_BOUNDS),
            _discrepancies(visit),
            console.records("board_accounts", limit=ingress_limits.CONSOLE_ROWS_MAX),
            parts_of(request).get(Totals).recent(console),
            console.records("pipeline_partitions", limit=ingress_limits.CONSOLE_ROWS_MAX),
            console.records("processor_outcomes", counted=ingress_limits.CONSOLE_COUNTED_MAX),
        )
    return visit.page(
        "overview.html",
        queues=QUEUES,
        counts={row["queue"]: row for row in counts},
        discrepancies=discrepancies,
        accounts=accounts,
        currencies=_currencies(totals),
        partitions=partitions,
        processors=[row for row in processors if row["minutes"] == _HOUR_MIN],
    )


@router.get("/queues/{queue}")
async def show_queue(request: Request, queue: str) -> Response:
    """One queue, what waits longest first."""
    async with visits.reading_of(request, "queue", queue) as visit:
        if queue not in QUEUES:
            raise errors.NotFound("There is no such queue.")
        counts = await visit.console.records("queue_counts", **_BOUNDS)
        found = await (_cases(visit) if queue == "cases" else _queue(visit, queue))
    by_queue = {row["queue"]: row for row in counts}
    return visit.page(
        f"queue_{queue}.html",
        queue=queue,
        queues=QUEUES,
        counts=by_queue,
        rows_max=ingress_limits.CONSOLE_ROWS_MAX,
        note_max=limits.NOTE_LENGTH_MAX,
        parked_min=payments_limits.WEBHOOK_PARKED_MAX_S // 60,
        **found,
    )


async def _queue(visit: visits.Visit, queue: str) -> dict[str, Any]:
    rows = await visit.console.records(f"queue_{queue}", **_BOUNDS, limit=ingress_limits.CONSOLE_ROWS_MAX)
    if queue == "review":
        rows = [row | {"reasons": json.loads(row["reasons"])} for row in rows]
    return {"rows": rows, "key": secrets.token_hex(_KEY_BYTES), "may_decide": visit.who.may_decide}


async def _cases(visit: visits.Visit) -> dict[str, Any]:
    """Cases through the same reader as ``GET /v1/cases``; of one kind or state when it is asked for."""
    query = visit.request.query_params
    state = query.get("state") if query.get("state") in cases.STATES else "open"
    kind, cursor = query.get("kind") or None, query.get("cursor") or None
    reader = parts_of(visit.request).get(Cases)
    page = await reader.page(visit.who.merchant, ingress_limits.CONSOLE_ROWS_MAX, cursor, state, kind)
    rows = [row | {"opened_at": datetime.fromisoformat(row["opened_at"])} for row in page["data"]]
    for row in rows:
        row["evidence"] = json.loads(bytes(row["evidence"]))
    kinds = await visit.console.records("queue_case_kinds", counted=ingress_limits.CONSOLE_COUNTED_MAX)
    return {"rows": rows, "kinds": kinds, "kind": kind, "state": state, "next_cursor": page["next_cursor"]}


@router.get("/reconciliation")
async def reconciliation(request: Request) -> Response:
    """What reports and ledger do not agree on, and how old that is."""
    async with visits.reading_of(request, "reconciliation", "reconciliation") as visit:
        wanted = request.query_params.get("class") or None
        console, limit = visit.console, ingress_limits.CONSOLE_ROWS_MAX
        classes, rows, accounts, waiting, reports = await asyncio.gather(
            _discrepancies(visit),
            console.records("board_list", **{"class": wanted}, limit=limit),
            console.records("board_accounts", limit=limit),
            console.records(
                "board_waiting",
                counted=ingress_limits.CONSOLE_COUNTED_MAX,
                horizon=payments_limits.SETTLEMENT_HORIZON_DAYS,
            ),
            console.records("board_reports", limit=limit),
        )
    return visit.page(
        "reconciliation.html",
        classes=classes,
        wanted=wanted,
        rows=rows,
        accounts=accounts,
        waiting=waiting,
        reports=reports,
        horizon=payments_limits.SETTLEMENT_HORIZON_DAYS,
        rows_max=limit,
    )


async def _discrepancies(visit: visits.Visit) -> list[dict[str, Any]]:
    return await visit.console.records(
        "board_discrepancies",
        counted=ingress_limits.CONSOLE_COUNTED_MAX,
        horizon=payments_limits.SETTLEMENT_HORIZON_DAYS,
    )


@router.get("/trial-balance")
async def trial_balance(request: Request) -> Response:
    """Debits and credits of every kind of account, by currency; each currency must come to zero."""
    async with visits.reading_of(request, "trial_balance", "ledger") as visit:
        totals = await visit.console.records("trial_totals")
    return visit.page("trial_balance.html", currencies=_currencies(totals), now=datetime.now(UTC))


@router.get("/trial-balance/{currency}/{kind}")
async def accounts_of_kind(request: Request, currency: str, kind: str) -> Response:
    """The accounts of one kind in one currency, a page at a time."""
    async with visits.reading_of(request, "trial_balance", f"{kind}:{currency}") as visit:
        if not is_currency(currency) or not kind.isidentifier():
            raise errors.NotFound("There is no such kind of account.")
        after = request.query_params.get("after", "")[: ingress_limits.CONSOLE_SEARCH_LENGTH_MAX]
        rows = await visit.console.records(
            "trial_accounts", kind=kind, currency=currency, after=after, limit=ingress_limits.CONSOLE_ACCOUNTS_MAX + 1
        )
    shown = rows[: ingress_limits.CONSOLE_ACCOUNTS_MAX]
    after = shown[-1]["account_id"] if len(rows) > len(shown) else ""
    return visit.page("accounts.html", currency=currency, kind=kind, rows=shown, after=after)


def _currencies(totals: list[dict[str, Any]]) -> dict[str, dict[str, Any]]:
    """The trial balance by currency: its rows, both sums, and their difference, which must be zero."""
    found: dict[str, dict[str, Any]] = {}
    for row in totals:
        book = found.setdefault(row["currency"], {"rows": [], "debits": 0, "credits": 0, "accounts": 0})
        book["rows"].append(row)
        for side in ("debits", "credits", "accounts"):
            book[side] += int(row[side])
    for book in found.values():
        book["difference"] = book["debits"] - book["credits"]
    return found

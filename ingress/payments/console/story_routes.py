"""Search, the story of an aggregate, what an entry of it says in full, and a merchant's page."""

from __future__ import annotations

import json
import time
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import quote

from starlette.requests import Request
from starlette.responses import Response

from ingress import limits
from ingress.console import pages
from ingress.console import visit as visits
from ingress.http.parts import parts_of
from ingress.identity.caller import NAME
from ingress.payments.console import search, story
from ingress.payments.merchants import fee_terms
from ingress.payments.merchants.fee_terms import FeePolicies
from schemas import errors, stored_answer, stored_event
from schemas.avro import codec
from schemas.fields import validation
from schemas.payments import topics

if TYPE_CHECKING:
    from collections.abc import Callable

    from ingress.console.visit import Visit

_MERCHANT_ACCOUNTS: Final = ("merchant_pending", "merchant_available", "merchant_reserved", "merchant_dispute_hold")

router: Final = visits.router()


@router.get("/search")
async def find(request: Request) -> Response:
    """Goes to what the text names; lists it when it names several things; 404 when it names none."""
    return await _found(request, request.query_params.get("q", ""))


@router.post("/search")
async def find_what_was_typed(request: Request) -> Response:
    """As ``find``, for what somebody typed: it is in no address, so no history, proxy or log of one has it."""
    visit = await visits.visit(request)
    return await _found(request, (await visit.form()).get("q", ""))


async def _found(request: Request, asked: str) -> Response:
    async with visits.reading_of(request, "search", asked or "-") as visit:
        asked = search.clean(asked)
        hits = await search.find(visit.console, asked) if asked else []
    if len(hits) == 1:
        return visits.go(hits[0].target)
    scopes = limits.CONSOLE_SCOPES_SEARCHED_MAX
    return visit.page("search.html", 200 if hits or not asked else 404, hits=hits, q=asked, scopes=scopes)


@router.get("/story/{aggregate}")
async def show_story(request: Request, aggregate: str) -> Response:
    """Everything that is known of a payment or a journal entry, in order."""
    async with visits.reading_of(request, "story", aggregate) as visit:
        _require_name(aggregate)
        found = await story.of(visit.console, aggregate)
    return visit.page("story.html", story=found, rows_max=limits.CONSOLE_STORY_ROWS_MAX)


@router.get("/merchants/{merchant}")
async def show_merchant(request: Request, merchant: str) -> Response:
    """What we owe a merchant, its newest payments, and where it is told."""
    async with visits.reading_of(request, "merchant", merchant) as visit:
        if not NAME.match(merchant):
            raise errors.NotFound(f"Nothing is known of {merchant}.")
        prefixes = [f"{account}:{merchant}:" for account in _MERCHANT_ACCOUNTS]
        console, limit = visit.console, limits.CONSOLE_ROWS_MAX
        payments = await console.records("merchant_payments", id=merchant, before=None, before_id=None, limit=limit)
        accounts = await console.records("merchant_accounts", prefixes=prefixes, limit=limit)
        endpoints = await console.records("merchant_endpoints", id=merchant, limit=limit)
        fees = await console.records(
            "merchant_fees", prefixes=prefixes, days=limits.CONSOLE_FEE_DAYS, counted=limits.CONSOLE_COUNTED_MAX
        )
        versions = await parts_of(request).get(FeePolicies).versions(merchant)
        if not (payments or accounts or endpoints):
            raise errors.NotFound(f"Nothing is known of {merchant}.")
    found: dict[str, Any] = {"payments": payments, "accounts": accounts, "endpoints": endpoints, "fees": fees}
    found |= {"versions": [_version(row) for row in versions[:limit]], "fee_days": limits.CONSOLE_FEE_DAYS}
    current = fee_terms.in_force(versions, time.time_ns() // 1_000)
    found |= {"in_force": current and current["version"], "terms": current["terms"] if current else fee_terms.FIRST}
    return visit.page("merchant.html", merchant=merchant, rows_max=limit, **found)


@router.get("/detail/{what}")
async def show_detail(request: Request, what: str) -> Response:
    """What an entry of a timeline says in full: loaded into it, or a page of its own."""
    if what not in _DETAILS:
        raise errors.NotFound
    query = request.query_params
    name = query.get("id") or query.get("key") or ""
    async with visits.reading_of(request, f"detail.{what}", name) as visit:
        for text in query.values():
            if reason := validation.clean_text(text, limits.CONSOLE_SEARCH_LENGTH_MAX):
                raise errors.NotFound(f"The name {reason}.")
        facts, body = await _DETAILS[what](visit, name)
    template = "part_detail.html" if visit.is_part else "detail.html"
    return visit.page(template, what=what, name=name, facts=facts, body=body)


Detail = tuple[dict[str, Any], str]


async def _command(visit: Visit, key: str) -> Detail:
    scope = visit.request.query_params.get("scope", "")
    row = _only(await visit.console.records("detail_command", scope=scope, key=key), key)
    answer = stored_answer.whole(bytes(row.pop("response")), row.pop("event"))
    return row, _readable(answer.decode())


async def _event(visit: Visit, event_id: str) -> Detail:
    place = search.event_place(event_id)
    if place is None:
        raise errors.NotFound(f"Nothing is known of {event_id}.")
    where = {"events": topics.EVENTS, "partition": place.partition, "seq": place.seq}
    row = _only(await visit.console.records("detail_event", **where, id=event_id), event_id)
    event = codec.decode_event(stored_event.published(bytes(row.pop("payload"))))
    return row | {"operation": event.operation, "scope": event.scope, "trace": event.trace_id}, _indented(event.body)


async def _webhook(visit: Visit, event_id: str) -> Detail:
    processor = visit.request.query_params.get("processor", "")
    row = _only(await visit.console.records("detail_webhook", processor=processor, id=event_id), event_id)
    return row, _readable(bytes(row.pop("body")).decode(errors="replace"))


async def _line(visit: Visit, line_id: str) -> Detail:
    processor = visit.request.query_params.get("processor", "")
    row = _only(await visit.console.records("detail_line", processor=processor, id=line_id), line_id)
    return row, ""


_DETAILS: Final[dict[str, Callable[[Visit, str], Any]]] = {
    "command": _command,
    "event": _event,
    "webhook": _webhook,
    "line": _line,
}


def _version(row: dict[str, Any]) -> dict[str, Any]:
    return row | {name: pages.moment(row[name] / 1_000_000) for name in ("published_at", "effective_at")}


def _only(rows: list[dict[str, Any]], name: str) -> dict[str, Any]:
    if not rows:
        raise errors.NotFound(f"Nothing is known of {name}.")
    return rows[0]


def _readable(text: str) -> str:
    """JSON with one member a line; anything else as it is. Bounded."""
    try:
        return _indented(json.loads(text))
    except ValueError:
        return text[: limits.CONSOLE_DOCUMENT_LENGTH_MAX]


def _indented(value: Any) -> str:
    return json.dumps(value, indent=2, ensure_ascii=False, default=str)[: limits.CONSOLE_DOCUMENT_LENGTH_MAX]


def _require_name(text: str) -> None:
    if validation.clean_text(text, limits.CONSOLE_SEARCH_LENGTH_MAX):
        raise errors.NotFound(f"Nothing is known of {quote(text[: limits.CONSOLE_SEARCH_LENGTH_MAX])}.")

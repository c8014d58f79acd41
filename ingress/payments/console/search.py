"""The search: any id that Millrace or a processor gave, and where its story is told."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import quote

from ingress import limits
from schemas import errors, identity
from schemas.fields import card_number
from schemas.payments import topics

if TYPE_CHECKING:
    from ingress.console.state import Console

_EVENT: Final = re.compile(r"evt_[a-z0-9]*?([0-9a-f]{4})([0-9a-f]{12})\Z")
_NUMBER: Final = re.compile(r"[0-9]{1,18}\Z")


@dataclass(frozen=True, slots=True)
class Hit:
    """Something that the text is the name of, and the page that shows it."""

    kind: str
    id: str
    owner: str | None
    note: str
    target: str


@dataclass(frozen=True, slots=True)
class EventPlace:
    """Where an event id of ours says it lies; its own id is compared as well."""

    partition: int
    seq: int


def event_place(text: str) -> EventPlace | None:
    """The place that an event id names; None when the text is none."""
    found = _EVENT.match(text)
    return None if found is None else EventPlace(int(found[1], 16), int(found[2], 16))


def clean(text: str) -> str:
    """What was asked for. Raises InvalidCommand for what can be the name of nothing."""
    asked = text.strip()
    if len(asked) > limits.CONSOLE_SEARCH_LENGTH_MAX or not asked.isprintable():
        reason = f"must have 1 to {limits.CONSOLE_SEARCH_LENGTH_MAX} printable characters"
        raise errors.InvalidCommand([{"field": "q", "reason": reason}])
    if card_number.url_holds_card_number(asked):  # Rule: what is looked for is kept, in the audit log, for ever
        raise errors.InvalidCommand([{"field": "q", "reason": f"{card_number.REFUSED}; look for the card's token"}])
    return asked


async def find(console: Console, asked: str) -> list[Hit]:
    """Everything of that name; idempotency keys (``key`` or ``scope/key``) only when nothing else is."""
    place = identity.place_of_operation(asked) or (None, None)
    event = event_place(asked)
    rows = await console.records(
        "find",
        q=asked,
        intent=place[0],
        attempt=place[1],
        events=topics.EVENTS,
        partition=event.partition if event else None,
        seq=event.seq if event else None,
        number=int(asked) if _NUMBER.match(asked) else None,
        processors=limits.CONSOLE_PROCESSORS_MAX,
        limit=limits.CONSOLE_HITS_MAX,
    )
    if not rows:
        scope, slash, key = asked.partition("/")
        rows = await _by_key(console, None, asked) or (await _by_key(console, scope, key) if slash else [])
    return list({hit.target: hit for hit in map(_hit, rows)}.values())


async def _by_key(console: Console, scope: str | None, key: str) -> list[dict[str, Any]]:
    return await console.records(
        "find_by_key", scope=scope, key=key, scopes=limits.CONSOLE_SCOPES_SEARCHED_MAX, limit=limits.CONSOLE_HITS_MAX
    )


def _hit(row: dict[str, Any]) -> Hit:
    return Hit(row["kind"], row["id"], row["owner"], row["note"] or "", _target(row))


def _target(row: dict[str, Any]) -> str:
    kind, name, owner = row["kind"], quote(row["id"], safe=""), quote(row["owner"] or "", safe="")
    if kind == "case":
        return f"/console/cases/{name}"
    if kind == "repair":
        return f"/console/repairs/{name}"
    if kind in ("closing", "outcome"):
        return f"/console/cases/{quote(row['aggregate_key'], safe='')}"
    if kind in ("merchant", "endpoint", "signing key"):
        return f"/console/merchants/{owner}"
    if row["aggregate_key"] is None:
        what = {"processor event": "webhook", "settlement line": "line"}.get(kind)
        return f"/console/detail/{what}?processor={owner}&id={name}" if what else "/console/queues/parked"
    anchor = "" if kind in ("payment", "journal entry", "account") else f"#{name}"
    return f"/console/story/{quote(row['aggregate_key'], safe='')}{anchor}"

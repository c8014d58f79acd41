"""Probes over the API: one tenant asks for what is another's, and must be told what it is told of nothing at all."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from functools import partial
from http import HTTPStatus
from typing import TYPE_CHECKING, Any, Final

from compose.isolation.answers import given, shows
from compose.isolation.canaries import METERED
from compose.isolation.found import Found
from schemas.errors import Unavailable

if TYPE_CHECKING:
    from compose.isolation.api_connection import Answer
    from compose.isolation.canaries import Canary, Doors

_HOUR_S: Final = 3_600
_REPLAYED: Final = "idempotency-replayed"
BELOW: Final = (
    *("", "/migrations", "/billing_runs", "/billing_entries", "/entitlements", "/quotas", "/support_grants", "/keys"),
    *("/exports", "/history"),
)
_LISTS: Final = (
    *("/v1/resources", "/v1/usage_conflicts", "/v1/usage_dimensions", "/v1/audit", "/v1/events", "/v1/quotas"),
    "/v1/entitlements",
)


def route_probes(doors: Doors, asks: Canary, other: Canary) -> Iterator[Found]:
    """All of them, one after another. Raises Unavailable for one that could not be carried out."""
    for name, probe in _PROBES.items():
        for found in probe(doors, asks, other):
            yield found._replace(probe=f"{name} {found.probe}")


def _ghost(id_: str) -> str:
    """As long, of the same letters, and nobody's."""
    return id_[:3] + id_[:2:-1]


def compared(doors: Doors, asks: Canary, place: str, id_: str, ask: Callable[[str], Answer], other: Canary) -> Found:
    """What is found by ``ask`` with the id of the other's, and with nobody's.

    What is told of nobody's is remembered for a minute; it is asked for anew before a difference is evidence.
    """
    theirs = ask(id_)
    if theirs.is_success:
        return Found(place, f"another tenant's was reached: {theirs.status_code}", is_leak=True)
    if (seen := _seen(place, theirs.text, other)).is_leak:
        return seen
    told = _told(theirs)
    remembered = partial(doors.remembered, ("nobody's", place, asks.tenant_id), lambda: _told(ask(_ghost(id_))))
    if told != remembered() and told != (nobodys := remembered(anew=True)):
        return Found(place, f"another tenant's is told from nobody's: {told[0]} and {nobodys[0]}")
    is_missing = theirs.status_code == HTTPStatus.NOT_FOUND
    return Found(place, None if is_missing else f"{theirs.status_code} in place of 404")


def _told(answer: Answer) -> tuple[int, set[str]]:
    """The status and the names of header fields.

    A round that got no answer to its first write is told so by the next: of itself alone.
    """
    return answer.status_code, set(answer.headers) - {_REPLAYED}


def _seen(place: str, text: str, other: Canary) -> Found:
    is_seen = shows(text, other)
    return Found(place, "another tenant's marker or id is in the answer", is_leak=True) if is_seen else Found(place)


def _by_id(doors: Doors, asks: Canary, other: Canary) -> Iterator[Found]:
    for method in ("GET", "PUT", "DELETE"):

        def ask(id_: str, method: str = method) -> Answer:
            return doors.ask(asks.tenant_id, method, f"/v1/resources/{id_}", **_said(method, id_))

        yield compared(doors, asks, method, other.resource_id, ask, other)


def _said(method: str, id_: str) -> dict[str, Any]:
    """A write is decided anew once an hour: every decision is kept for ever."""
    if method == "GET":
        return {}
    key = f"probe-{method}-{id_}-{int(time.time()) // _HOUR_S}"
    if method == "DELETE":
        return {"headers": {"Idempotency-Key": key, "If-Match": '"1"'}}
    return {"json": {"idempotency_key": key, "expected_version": 1, "payload": {"marker": "written by another"}}}


def _below_tenant(doors: Doors, asks: Canary, other: Canary) -> Iterator[Found]:
    for below in BELOW:

        def ask(id_: str, below: str = below) -> Answer:
            return doors.ask(asks.tenant_id, "GET", f"/v1/tenants/{id_}{below}")

        yield compared(doors, asks, f"tenants/..{below}", other.tenant_id, ask, other)


def _lists(doors: Doors, asks: Canary, other: Canary) -> Iterator[Found]:
    for path in _LISTS:
        yield given(path, doors.ask(asks.tenant_id, "GET", path), asks, other)
    today = datetime.now(UTC).date()
    span = {"from": f"{today - timedelta(days=1)}T00:00:00Z", "to": f"{today + timedelta(days=1)}T00:00:00Z"}
    params = {"dimension": METERED, "group": "subject"} | span
    yield given("/v1/usage", doors.ask(asks.tenant_id, "GET", "/v1/usage", params=params), asks, other)


def _cursors(doors: Doors, asks: Canary, other: Canary) -> Iterator[Found]:
    """A place in a list is its reader's, and as it was written."""
    own, theirs = (event_cursor(doors, one) for one in (asks, other))
    for which, cursor in {"another tenant's": theirs, "altered": ("B" if own[0] == "A" else "A") + own[1:]}.items():
        answer = doors.ask(asks.tenant_id, "GET", "/v1/events", params={"limit": "1", "cursor": cursor})
        seen = _seen(which, answer.text, other)
        is_refused = answer.status_code == HTTPStatus.BAD_REQUEST
        yield seen if seen.is_leak or is_refused else Found(which, f"it was taken: {answer.status_code}")


def event_cursor(doors: Doors, canary: Canary) -> str:
    """A place in its events, the same for a minute. Raises Unavailable."""
    found: str = doors.remembered(("cursor", canary.tenant_id), partial(_cursor, doors, canary.tenant_id))
    return found


def _cursor(doors: Doors, tenant_id: str) -> str:
    """A list of events gives one with every page. Raises Unavailable."""
    answer = doors.ask(tenant_id, "GET", "/v1/events", params={"limit": "1"})
    if not answer.is_success or not (cursor := answer.json().get("next_cursor")):
        raise Unavailable(f"GET /v1/events: {answer.status_code}, and no cursor")
    return str(cursor)


def _named_tenant(doors: Doors, asks: Canary, other: Canary) -> Iterator[Found]:
    tries: dict[str, dict[str, Any]] = {
        "query": {"params": {"tenant_id": other.tenant_id}},
        "header": {"headers": {"X-Tenant-Id": other.tenant_id}},
    }
    for where, more in tries.items():
        answer = doors.ask(asks.tenant_id, "GET", "/v1/resources", **more)
        is_refused = answer.status_code == HTTPStatus.BAD_REQUEST
        seen = _seen(where, answer.text, other)
        taken = Found(where, f"a tenant named in the {where} was taken: {answer.status_code}")
        yield seen if seen.is_leak or is_refused else taken


_PROBES: Final[dict[str, Callable[[Doors, Canary, Canary], Iterator[Found]]]] = {
    "id": _by_id,
    "desk": _below_tenant,
    "list": _lists,
    "cursor": _cursors,
    "named tenant": _named_tenant,
}

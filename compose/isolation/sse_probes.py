"""Probes of the stream of a tenant's events: each is opened, read for a bounded time, and closed.

From the first event on it has all that the canary did, and nobody else's; with another tenant's place in it, it is
refused, wherever that is named.
"""

from __future__ import annotations

from http import HTTPStatus
from typing import TYPE_CHECKING, Any, Final

from compose.isolation.answers import given, shows
from compose.isolation.found import Found
from compose.isolation.route_probes import event_cursor
from schemas.errors import Unavailable

if TYPE_CHECKING:
    from collections.abc import Iterator

    from compose.isolation.canaries import Canary, Doors

STREAM: Final = "/v1/events/stream"
_FIRST: Final = "0"


def sse_probes(doors: Doors, asks: Canary, other: Canary) -> Iterator[Found]:
    """All of them. Raises Unavailable for one that could not be carried out."""
    answer = doors.listen(asks.tenant_id, STREAM, asks.resource_id, params={"cursor": _FIRST})
    found = given("stream", answer, asks, other)
    if found.evidence is None and asks.resource_id not in answer.text:
        raise Unavailable(f"{STREAM}: a tenant's own event did not come in time")
    yield found
    theirs = event_cursor(doors, other)
    tries: dict[str, dict[str, Any]] = {
        "cursor": {"params": {"cursor": theirs}},
        "Last-Event-ID": {"headers": {"Last-Event-ID": theirs}},
    }
    for where, more in tries.items():
        answer = doors.listen(asks.tenant_id, STREAM, "", **more)
        place = f"stream {where}"
        if shows(answer.text, other):
            yield Found(place, "another tenant's marker or id is in the answer", is_leak=True)
        elif answer.status_code == HTTPStatus.BAD_REQUEST:
            yield Found(place)
        else:
            yield Found(place, f"another tenant's place was taken: {answer.status_code}")

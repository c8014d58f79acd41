"""Probes of what a tenant is given when it asks for its own: the whole answer is looked at, and names nobody else.

A route that takes the right id and answers with another's row tells it here alone: who asks for another's is refused.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from compose.isolation.answers import given
from compose.isolation.object_probes import ROUTES, own_objects
from compose.isolation.route_probes import BELOW

if TYPE_CHECKING:
    from collections.abc import Iterator

    from compose.isolation.api_connection import Answer
    from compose.isolation.canaries import Canary, Doors
    from compose.isolation.found import Found


def own_probes(doors: Doors, dsn: str, asks: Canary, other: Canary) -> Iterator[Found]:
    """All of them; which objects it has, is remembered for a minute. ``dsn``: as the ingress reads.

    Raises Unavailable for one that could not be carried out.
    """
    path = f"/v1/resources/{asks.resource_id}"
    yield _own(path, doors.ask(asks.tenant_id, "GET", path), asks, other, has=asks.marker)
    for below in BELOW:
        path = f"/v1/tenants/{asks.tenant_id}{below}"
        yield _own(path, doors.ask(asks.tenant_id, "GET", path), asks, other)
    for kind, tenant_id, object_id in own_objects(doors, dsn, asks):
        for route in ROUTES[kind]:
            path = route.format(tenant=tenant_id, id=object_id)
            yield _own(path, doors.ask(asks.tenant_id, "GET", path), asks, other)


def _own(path: str, answer: Answer, asks: Canary, other: Canary, has: str = "") -> Found:
    place = path.replace(asks.tenant_id, "{tenant}").replace(asks.resource_id, "{id}")
    found = given(f"own {place}", answer, asks, other)
    if found.evidence is None and has not in answer.text:
        return found._replace(evidence="a tenant's own is not in the answer: the probe proves nothing")
    return found

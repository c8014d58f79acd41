"""All that the OpenAPI document says of payments, but for the commands."""

from __future__ import annotations

from typing import Any

from ingress.http.openapi import elements
from ingress.payments.openapi import (
    accounts,
    closings,
    endpoints,
    money,
    objects,
    outcomes,
    policies,
    reads,
    repairs,
    signing,
    webhooks,
)

Json = dict[str, Any]
_ROOMS = (accounts, repairs, closings, outcomes, money, policies, endpoints, signing)


def paths() -> Json:
    """Reads, decisions of operators, endpoints of merchants, webhooks of processors."""
    found: Json = {}
    for room in (reads, *_ROOMS):
        for path, item in room.paths().items():
            found.setdefault(path, {}).update(item)
    found["/v1/webhooks/{processor}"] = {"post": webhooks.receive(elements.refusals)}
    return found


def components() -> Json:
    """The schemas of all of these."""
    found: Json = {}
    for room in (objects, *_ROOMS):
        found |= room.components()
    return found

"""Reads of payments: one resource with its expansions, and pages of the caller's own."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from starlette.responses import Response

from ingress.commands import calling
from ingress.http.parts import parts_of
from ingress.http.requests import preferences
from ingress.payments import expansion, filters
from ingress.payments.expansion import Expansions

if TYPE_CHECKING:
    from starlette.requests import Request

    from ingress.payments.resources import Record, Resources

READ: Final = "payments:read"


async def resource(request: Request, resources: Resources[Record], object_id: str) -> Response:
    """One of the caller's own; with Prefer: wait=N, as soon as it is settled."""
    caller = await calling.caller_of(request, READ)
    calling.require_id(object_id)
    asked = preferences.parse(request.headers.getlist("prefer"))
    wanted = expansion.asked(request, resources.kind.name)
    found = await resources.get(caller.merchant, object_id, asked.wait_s or 0)
    headers = dict(calling.NO_STORE)
    if asked.wait_s is not None:
        headers["Preference-Applied"] = f"wait={asked.wait_s}"
    if wanted:
        document = resources.kind.render(found)
        return calling.json(
            await parts_of(request).get(Expansions).expanded(document, caller.merchant, wanted), headers
        )
    etag = headers["ETag"] = f'"{found.version}"'
    if request.headers.get("if-none-match") == etag:
        return Response(status_code=304, headers=headers)
    return calling.json(resources.kind.render(found), headers)


async def page(request: Request, resources: Resources[Record]) -> Response:
    """The caller's own, newest first, as it filters them."""
    caller = await calling.caller_of(request, READ)
    limit, cursor = calling.place(request)
    wanted = filters.asked(request, resources.kind.record, of_intent=resources.kind.of_intent is not None)
    return calling.json(await resources.page(caller.merchant, limit, cursor, wanted))

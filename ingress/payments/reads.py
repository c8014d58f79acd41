"""How payments read: one resource, with what it can take along, and pages of the caller's own."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from starlette.responses import Response

from ingress.commands import calling
from ingress.http import preferences, reading
from ingress.http.parts import parts_of
from ingress.payments import expansion
from ingress.payments.expansion import Expansions
from ingress.payments.resources import Span
from schemas import errors, limits, validation

if TYPE_CHECKING:
    from starlette.requests import Request

    from ingress.payments.resources import Record, Resources

READ: Final = "payments:read"
CREATED_FROM: Final = "created[gte]"
CREATED_BEFORE: Final = "created[lt]"


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
    """The caller's own, newest first; with one filter where the list knows it, and of a time."""
    caller = await calling.caller_of(request, READ)
    limit, cursor = calling.place(request)
    made = Span(reading.moment(request, CREATED_FROM) or 0, reading.moment(request, CREATED_BEFORE))
    return calling.json(await resources.page(caller.merchant, limit, cursor, _filters(request, resources), made))


def _filters(request: Request, resources: Resources[Record]) -> dict[str, str]:
    """By what the list is filtered. Raises InvalidCommand for a value that nothing has, and for two filters."""
    intent = reading.identity(request, "payment_intent") if resources.kind.of_intent else None
    found = {} if intent is None else {"payment_intent": intent}
    for field in resources.kind.listed:
        value = reading.query(request, field.name)
        if value is None:
            continue
        if reason := validation.free_text(value, field.column.length_max or limits.TEXT_LENGTH_MAX):
            raise errors.InvalidCommand([{"field": field.name, "reason": reason}])
        found[field.name] = value
    if len(found) > 1:
        raise errors.InvalidCommand([{"field": name, "reason": "is not taken with another filter"} for name in found])
    return found

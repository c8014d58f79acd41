"""The steps that all routes share, from request to rendered answer: a mutating call, one resource, a page."""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final

import msgspec
from starlette.responses import Response

from ingress import limits
from ingress.commands import envelope, envelope_fields
from ingress.commands.admission import DRY_RUN, Admissions
from ingress.commands.commands import Commands, Terms
from ingress.http import answers, problems
from ingress.http.parts import parts_of
from ingress.http.requests import preferences, reading
from ingress.identity.auth import Authenticator
from ingress.identity.signed_requests import SignedRequests
from schemas import errors
from schemas.limits import BODY_BYTES_MAX
from schemas.operation import ID

if TYPE_CHECKING:
    from collections.abc import Mapping

    from starlette.requests import Request

    from ingress.identity.caller import Caller
    from schemas.operation import Operation

NO_STORE: Final = {"Cache-Control": "no-store"}
_JSON: Final = "application/json"
_MALFORMED: Final = (errors.MalformedRequest, errors.IdempotencyKeyRequired, errors.InvalidCommand, errors.NotFound)
_encode: Final = msgspec.json.Encoder().encode


async def caller_of(request: Request, *scopes: str) -> Caller:
    """The verified caller, if it has one of these scopes. Raises Unauthenticated or Forbidden."""
    caller = await parts_of(request).get(Authenticator).caller_in(request.scope)
    caller.require(*scopes)
    return caller


async def command(
    request: Request, operation: Operation, path_id: str | None, said_by_route: Mapping[str, str] = MappingProxyType({})
) -> Response:
    """Carries out one mutating call and renders its answer. ``said_by_route``: further ids of its path."""
    parts = parts_of(request)
    if operation.scope is None:
        raise errors.NotFound  # an operation that no client may call has no route
    caller = await caller_of(request, operation.scope)
    try:
        for id_ in (path_id, *said_by_route.values()):
            if id_ is not None:
                require_id(id_)
        fields = envelope_fields.header_fields(request.headers)
        asked_terms, asked = terms(request)
        raw = await reading.body(request, reading.JSON, operation.body_bytes_max)
        proof = await parts.get(SignedRequests).proof(request, caller.principal, raw)
        call = envelope.read_call(operation, path_id, raw, fields, caller.principal, said_by_route=said_by_route)
        is_forecast = reading.choice(request, DRY_RUN, ("true", "false")) == "true"
    except _MALFORMED:
        await parts.get(Admissions).of(operation.service).require_caller(caller)
        raise
    if is_forecast:
        return forecast(await parts.get(Admissions).of(operation.service).forecast(caller, call))
    answer, request_id = await parts.get(Commands).one(caller, call, asked_terms, proof)
    return answers.response(answer, asked.applied(), request_id)


async def without_tenant(request: Request, *scopes: str) -> bytes:
    """The body of a call by somebody with one of these scopes, read before what it is about is looked for.

    Raises as ``caller_of``, and MalformedRequest if it names a tenant: that is told first, of whatever it is asked.
    """
    await caller_of(request, *scopes)
    raw = await reading.body(request, reading.JSON, BODY_BYTES_MAX)
    envelope.refuse_tenant(raw)
    return raw


def forecast(answer: answers.Answer) -> Response:
    """The response of a dry run: without version, place and request id, since nothing was done."""
    if answer.code is None:
        return json(answer.body)
    headers = problems.headers_of(answer.code)
    return Response(answer.body, answer.status, headers, problems.MEDIA_TYPE)


def terms(request: Request) -> tuple[Terms, preferences.Preferences]:
    """The terms on which the caller waits."""
    asked = preferences.parse(request.headers.getlist("prefer"))
    deadline_ms = preferences.deadline_ms(request.headers)
    found = Terms(
        wait_s=preferences.wait_s(asked, deadline_ms),
        respond_async=asked.respond_async or asked.wait_s == 0,  # who waits for no decision hears what Kafka has
        deadline_ms=deadline_ms,
        trace_id=reading.trace_id(request),
    )
    return found, asked


def place(request: Request) -> tuple[int, str | None]:
    """The query values ``limit`` and ``cursor`` of a list."""
    limit = reading.limit(request, limits.PAGE_LIMIT_DEFAULT, limits.PAGE_LIMIT_MAX)
    return limit, reading.query(request, "cursor")


def require_id(text: str) -> None:
    """Raises NotFound for a value that cannot be an id, before it is used."""
    if not ID.fullmatch(text):
        raise errors.NotFound


def json(value: Any, headers: dict[str, str] = NO_STORE, status: int = 200) -> Response:
    """A JSON response that no cache keeps; bytes are a document already."""
    content = value if isinstance(value, bytes) else _encode(value)
    return Response(content, status, headers, media_type=_JSON)


def created(value: Any, location: str, *, is_replayed: bool = False) -> Response:
    """201 with the location of the new object; a retry is marked as replayed."""
    return json(value, NO_STORE | {"Location": location} | _replayed(is_replayed=is_replayed), 201)


def decided(value: Any, *, is_replayed: bool, status: int = 200) -> Response:
    """What a person decided; who says the same again hears it marked as replayed."""
    return json(value, NO_STORE | _replayed(is_replayed=is_replayed), status)


def _replayed(*, is_replayed: bool) -> dict[str, str]:
    return {"Idempotency-Replayed": "true"} if is_replayed else {}

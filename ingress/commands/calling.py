"""What all routes share: a mutating call, one resource, a page; each from the request to the rendered answer."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final

import msgspec
from starlette.responses import Response

from ingress.commands import envelope
from ingress.commands.commands import Terms
from ingress.http import answers, preferences, problems, reading
from ingress.payments import dry_run, expansion
from schemas import errors, limits
from schemas.payments import operations

if TYPE_CHECKING:
    from starlette.requests import Request

    from ingress.payments.resources import Record, Resources
    from ingress.state import Ingress
    from schemas.operation import Operation

READ: Final = "payments:read"
WRITE: Final = operations.WRITE
OPERATOR: Final = "operator"
NO_STORE: Final = {"Cache-Control": "no-store"}
_ID: Final = re.compile(rf"[A-Za-z0-9_]{{1,{limits.AGGREGATE_KEY_LENGTH_MAX}}}")
_JSON: Final = "application/json"
_encode: Final = msgspec.json.Encoder().encode


def ingress_of(request: Request) -> Ingress:
    """The parts of this process."""
    return request.app.state.ingress  # type: ignore[no-any-return] # set once by the application factory


async def command(request: Request, operation: Operation, path_id: str | None) -> Response:
    """Carries out one mutating call and renders its answer."""
    ingress = ingress_of(request)
    caller = await ingress.caller(request, operation.scope or WRITE)
    if path_id is not None:
        require_id(path_id)
    fields = envelope.header_fields(request.headers)
    asked_terms, asked = terms(request)
    raw = await reading.body(request, reading.JSON, limits.BODY_BYTES_MAX)
    proof = await ingress.signed_requests.proof(request, caller.merchant, raw)
    call = envelope.read_call(operation, path_id, raw, fields, caller.merchant)
    if reading.choice(request, dry_run.PARAMETER, ("true", "false")) == "true":
        return forecast(await ingress.dry_runs.forecast(caller, call))
    answer, request_id = await ingress.commands.one(caller, call, asked_terms, proof)
    return answers.response(answer, asked.applied(), request_id)


def forecast(answer: answers.Answer) -> Response:
    """The response of a dry run: no version, place or request id, for nothing was done."""
    if answer.code is None:
        return json(answer.body)
    headers = problems.headers_of(answer.code)
    return Response(answer.body, answer.status, headers, problems.MEDIA_TYPE)


def terms(request: Request) -> tuple[Terms, preferences.Preferences]:
    """On which terms the caller waits, and what it asked for."""
    asked = preferences.parse(request.headers.getlist("prefer"))
    deadline_ms = preferences.deadline_ms(request.headers)
    found = Terms(
        wait_s=preferences.wait_s(asked, deadline_ms),
        respond_async=asked.respond_async,
        deadline_ms=deadline_ms,
        trace_id=reading.trace_id(request),
    )
    return found, asked


async def resource(request: Request, resources: Resources[Record], object_id: str) -> Response:
    """One of the caller's own; with Prefer: wait=N, as soon as it is settled."""
    caller = await ingress_of(request).caller(request, READ)
    require_id(object_id)
    asked = preferences.parse(request.headers.getlist("prefer"))
    wanted = expansion.asked(request, resources.kind.name)
    found = await resources.get(caller.merchant, object_id, asked.wait_s or 0)
    headers = dict(NO_STORE)
    if asked.wait_s is not None:
        headers["Preference-Applied"] = f"wait={asked.wait_s}"
    if wanted:
        document = resources.kind.render(found)
        return json(await ingress_of(request).expansions.expanded(document, caller.merchant, wanted), headers)
    etag = headers["ETag"] = f'"{found.version}"'
    if request.headers.get("if-none-match") == etag:
        return Response(status_code=304, headers=headers)
    return json(resources.kind.render(found), headers)


async def page(request: Request, resources: Resources[Record]) -> Response:
    """The caller's own, newest first; of one payment where the list knows that filter."""
    caller = await ingress_of(request).caller(request, READ)
    limit, cursor = place(request)
    intent = reading.identity(request, "payment_intent") if resources.kind.of_intent else None
    return json(await resources.page(caller.merchant, limit, cursor, intent))


def place(request: Request) -> tuple[int, str | None]:
    """The query values ``limit`` and ``cursor`` of a list."""
    limit = reading.limit(request, limits.PAGE_LIMIT_DEFAULT, limits.PAGE_LIMIT_MAX)
    return limit, reading.query(request, "cursor")


def require_id(text: str) -> None:
    """Raises NotFound for what can be nobody's id, before it goes anywhere."""
    if not _ID.fullmatch(text):
        raise errors.NotFound


def json(value: Any, headers: dict[str, str] = NO_STORE, status: int = 200) -> Response:
    """A JSON document that no cache keeps; bytes are one already."""
    content = value if isinstance(value, bytes) else _encode(value)
    return Response(content, status, headers, media_type=_JSON)


def created(value: Any, location: str, *, is_replayed: bool = False) -> Response:
    """201 with where the new thing is; a retry is told that it is one."""
    replayed = {"Idempotency-Replayed": "true"} if is_replayed else {}
    return json(value, NO_STORE | {"Location": location} | replayed, 201)

"""The routes of payments: each reads its request, asks the part that knows, and renders the answer."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

import msgspec
from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse

from ingress import answers, checkpoints, envelope, preferences, reading
from ingress.commands import Terms
from schemas import errors, limits, rendering
from schemas.operations import OPERATIONS

if TYPE_CHECKING:
    from ingress.state import Ingress
    from schemas.operations import Operation

READ: Final = "payments:read"
WRITE: Final = "payments:write"
_ID: Final = re.compile(rf"[A-Za-z0-9_]{{1,{limits.AGGREGATE_KEY_LENGTH_MAX}}}")
_NO_STORE: Final = {"Cache-Control": "no-store"}
_encode: Final = msgspec.json.Encoder().encode

router: Final = APIRouter()


def _ingress(request: Request) -> Ingress:
    return request.app.state.ingress  # type: ignore[no-any-return] # set once by the application factory


@router.post("/v1/payment_intents")
async def create(request: Request) -> Response:
    """Creates an intent; the same identity again answers the same."""
    return await _command(request, OPERATIONS["create_payment_intent"], None)


@router.post("/v1/payment_intents/{intent_id}/confirm")
async def confirm(request: Request, intent_id: str) -> Response:
    """Starts to authorize or capture."""
    return await _command(request, OPERATIONS["confirm_payment_intent"], intent_id)


@router.post("/v1/payment_intents/{intent_id}/capture")
async def capture(request: Request, intent_id: str) -> Response:
    """Takes what was authorized, in whole or in part."""
    return await _command(request, OPERATIONS["capture_payment_intent"], intent_id)


@router.post("/v1/payment_intents/{intent_id}/cancel")
async def cancel(request: Request, intent_id: str) -> Response:
    """Gives the payment up and releases what was authorized."""
    return await _command(request, OPERATIONS["cancel_payment_intent"], intent_id)


async def _command(request: Request, operation: Operation, path_id: str | None) -> Response:
    ingress = _ingress(request)
    caller = await ingress.caller(request, operation.scope or WRITE)
    if path_id is not None and not _ID.fullmatch(path_id):
        raise errors.NotFound
    fields = envelope.header_fields(request.headers)
    terms, asked = _terms(request)
    raw = await reading.body(request, reading.JSON, limits.BODY_BYTES_MAX)
    call = envelope.read_call(operation, path_id, raw, fields, caller.merchant)
    answer, request_id = await ingress.commands.one(caller, call, terms)
    return answers.response(answer, asked.applied(), request_id)


def _terms(request: Request) -> tuple[Terms, preferences.Preferences]:
    asked = preferences.parse(request.headers.getlist("prefer"))
    deadline_ms = preferences.deadline_ms(request.headers)
    terms = Terms(
        wait_s=preferences.wait_s(asked, deadline_ms),
        respond_async=asked.respond_async,
        deadline_ms=deadline_ms,
        trace_id=reading.trace_id(request),
    )
    return terms, asked


@router.post("/v1/commands")
async def commands(request: Request) -> Response:
    """Carries out one command per line and answers one line for each, in order."""
    ingress = _ingress(request)
    caller = await ingress.caller(request, WRITE)
    terms, asked = _terms(request)
    raw = await reading.body(request, reading.NDJSON, limits.COMMANDS_BODY_BYTES_MAX)
    lines = [line for line in raw.split(b"\n") if line.strip()]
    if not lines:
        raise errors.MalformedRequest("Send at least one command, one JSON object per line.")
    if len(lines) > limits.COMMANDS_LINES_MAX:
        raise errors.TooLarge(f"At most {limits.COMMANDS_LINES_MAX} commands fit into one request.")
    found = await ingress.commands.many(caller, lines, terms)
    headers = dict(_NO_STORE)
    if applied := asked.applied():
        headers["Preference-Applied"] = applied
    text = b"".join(answers.line(answer) + b"\n" for answer in found)
    return Response(text, headers=headers, media_type=reading.NDJSON[0])


@router.get("/v1/payment_intents/{intent_id}")
async def get_intent(request: Request, intent_id: str) -> Response:
    """The intent; with Prefer: wait=N, as soon as it is not processing any more."""
    ingress = _ingress(request)
    caller = await ingress.caller(request, READ)
    if not _ID.fullmatch(intent_id):
        raise errors.NotFound
    asked = preferences.parse(request.headers.getlist("prefer"))
    intent = await ingress.intents.get(caller.merchant, intent_id, asked.wait_s or 0)
    etag = f'"{intent.version}"'
    headers = _NO_STORE | {"ETag": etag}
    if asked.wait_s is not None:
        headers["Preference-Applied"] = f"wait={asked.wait_s}"
    if request.headers.get("if-none-match") == etag:
        return Response(status_code=304, headers=headers)
    return _json(rendering.payment_intent(intent), headers)


@router.get("/v1/payment_intents")
async def list_intents(request: Request) -> Response:
    """The caller's intents, newest first."""
    ingress = _ingress(request)
    caller = await ingress.caller(request, READ)
    limit = reading.limit(request, limits.PAGE_LIMIT_DEFAULT, limits.PAGE_LIMIT_MAX)
    page = await ingress.intents.page(caller.merchant, limit, reading.query(request, "cursor"))
    return _json(page, _NO_STORE)


@router.get("/v1/operations/{request_id}")
async def get_operation(request: Request, request_id: str) -> Response:
    """What became of a command."""
    ingress = _ingress(request)
    caller = await ingress.caller(request, READ)
    if not envelope.REQUEST_ID.match(request_id):
        raise errors.NotFound
    document = await ingress.operations.find(caller.merchant, request_id)
    return Response(document, headers=_NO_STORE, media_type="application/json")


@router.get("/v1/recovery_checkpoints")
async def list_checkpoints(request: Request) -> Response:
    """Named positions to recover from; needs the operator's scope."""
    ingress = _ingress(request)
    caller = await ingress.caller(request, checkpoints.SCOPE)
    limit = reading.limit(request, limits.PAGE_LIMIT_DEFAULT, limits.PAGE_LIMIT_MAX)
    page = await ingress.checkpoints.page(caller.merchant, limit, reading.query(request, "cursor"))
    return _json(page, _NO_STORE)


@router.get("/v1/events")
async def list_events(request: Request) -> Response:
    """The caller's events after a place."""
    ingress = _ingress(request)
    caller = await ingress.caller(request, READ)
    limit = reading.limit(request, limits.EVENTS_PAGE_LIMIT_DEFAULT, limits.EVENTS_PAGE_LIMIT_MAX)
    document = await ingress.events.page(caller.merchant, limit, reading.query(request, "cursor"))
    return Response(document, headers=_NO_STORE, media_type="application/json")


@router.get("/v1/events/stream")
async def stream_events(request: Request) -> Response:
    """The caller's events as they commit (server-sent events); Last-Event-ID or cursor resumes."""
    ingress = _ingress(request)
    caller = await ingress.caller(request, READ)
    ingress.streams.admit()
    cursor = request.headers.get("last-event-id") or reading.query(request, "cursor")
    place = ingress.events.place(caller.merchant, cursor) if cursor else await ingress.events.end()
    frames = ingress.streams.stream(caller, place)
    return StreamingResponse(frames, headers=_NO_STORE | {"X-Accel-Buffering": "no"}, media_type="text/event-stream")


def _json(value: object, headers: dict[str, str]) -> Response:
    return Response(_encode(value), headers=headers, media_type="application/json")

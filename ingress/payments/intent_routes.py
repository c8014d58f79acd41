"""The routes of payments: each reads its request, asks the part that knows, and renders the answer."""

from __future__ import annotations

from typing import Final

from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse

from ingress.commands import calling, envelope
from ingress.http import answers, reading
from ingress.payments import dry_run
from ingress.payments.merchants import accounts
from schemas import errors, limits
from schemas.payments.operations import OPERATIONS

router: Final = APIRouter()


@router.post("/v1/payment_intents")
async def create(request: Request) -> Response:
    """Creates an intent; the same identity again answers the same."""
    return await calling.command(request, OPERATIONS["create_payment_intent"], None)


@router.post("/v1/payment_intents/{intent_id}")
async def update(request: Request, intent_id: str) -> Response:
    """Changes what was agreed on, before the payer's money is asked for."""
    return await calling.command(request, OPERATIONS["update_payment_intent"], intent_id)


@router.post("/v1/payment_intents/{intent_id}/increment_authorization")
async def increment(request: Request, intent_id: str) -> Response:
    """Starts to hold more than is authorized."""
    return await calling.command(request, OPERATIONS["increment_authorization"], intent_id)


@router.post("/v1/payment_intents/{intent_id}/confirm")
async def confirm(request: Request, intent_id: str) -> Response:
    """Starts to authorize or capture."""
    return await calling.command(request, OPERATIONS["confirm_payment_intent"], intent_id)


@router.post("/v1/payment_intents/{intent_id}/capture")
async def capture(request: Request, intent_id: str) -> Response:
    """Takes what was authorized, in whole or in part."""
    return await calling.command(request, OPERATIONS["capture_payment_intent"], intent_id)


@router.post("/v1/payment_intents/{intent_id}/cancel")
async def cancel(request: Request, intent_id: str) -> Response:
    """Gives the payment up and releases what was authorized."""
    return await calling.command(request, OPERATIONS["cancel_payment_intent"], intent_id)


@router.post("/v1/commands")
async def commands(request: Request) -> Response:
    """Carries out one command per line and answers one line for each, in order."""
    ingress = calling.ingress_of(request)
    caller = await ingress.caller(request, calling.WRITE)
    if reading.query(request, dry_run.PARAMETER) is not None:  # ignored, it would be done
        reason = "is for single calls only"
        raise errors.InvalidCommand([{"field": dry_run.PARAMETER, "reason": reason}], f"A dry run {reason}.")
    terms, asked = calling.terms(request)
    raw = await reading.body(request, reading.NDJSON, limits.COMMANDS_BODY_BYTES_MAX)
    proof = await ingress.signed_requests.proof(request, caller.merchant, raw)
    lines = [line for line in raw.split(b"\n") if line.strip()]
    if not lines:
        raise errors.MalformedRequest("Send at least one command, one JSON object per line.")
    if len(lines) > limits.COMMANDS_LINES_MAX:
        raise errors.TooLarge(f"At most {limits.COMMANDS_LINES_MAX} commands fit into one request.")
    found = await ingress.commands.many(caller, lines, terms, proof)
    headers = dict(calling.NO_STORE)
    if applied := asked.applied():
        headers["Preference-Applied"] = applied
    text = b"".join(answers.line(answer) + b"\n" for answer in found)
    return Response(text, headers=headers, media_type=reading.NDJSON[0])


@router.get("/v1/payment_intents/{intent_id}")
async def get_intent(request: Request, intent_id: str) -> Response:
    """The intent; with Prefer: wait=N, as soon as it is not processing any more."""
    return await calling.resource(request, calling.ingress_of(request).intents, intent_id)


@router.get("/v1/payment_intents")
async def list_intents(request: Request) -> Response:
    """The caller's intents, newest first."""
    return await calling.page(request, calling.ingress_of(request).intents)


@router.get("/v1/operations/{request_id}")
async def get_operation(request: Request, request_id: str) -> Response:
    """What became of a command."""
    ingress = calling.ingress_of(request)
    caller = await ingress.caller(request, calling.READ)
    if not envelope.REQUEST_ID.match(request_id):
        raise errors.NotFound
    try:
        document = await ingress.operations.find(caller.merchant, request_id)
    except errors.NotFound:
        if calling.OPERATOR not in caller.scopes:
            raise
        document = await ingress.operations.find(accounts.scope_of(caller), request_id)
    return calling.json(document)


@router.get("/v1/events")
async def list_events(request: Request) -> Response:
    """The caller's events after a place."""
    ingress = calling.ingress_of(request)
    caller = await ingress.caller(request, calling.READ)
    limit = reading.limit(request, limits.EVENTS_PAGE_LIMIT_DEFAULT, limits.EVENTS_PAGE_LIMIT_MAX)
    document = await ingress.events.page(caller.merchant, limit, reading.query(request, "cursor"))
    return calling.json(document)


@router.get("/v1/events/stream")
async def stream_events(request: Request) -> Response:
    """The caller's events as they commit (server-sent events); Last-Event-ID or cursor resumes."""
    ingress = calling.ingress_of(request)
    caller = await ingress.caller(request, calling.READ)
    ingress.streams.admit()
    cursor = request.headers.get("last-event-id") or reading.query(request, "cursor")
    place = ingress.events.place(caller.merchant, cursor) if cursor else await ingress.events.end()
    frames = ingress.streams.stream(caller, place)
    return StreamingResponse(
        frames, headers=calling.NO_STORE | {"X-Accel-Buffering": "no"}, media_type="text/event-stream"
    )

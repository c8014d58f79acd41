"""The routes that all services share: lists of commands, one command's outcome, and a caller's events."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Final

from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import Response

from ingress import limits
from ingress.commands import calling
from ingress.commands.admission import Admissions
from ingress.commands.commands import Commands
from ingress.commands.envelope import lines_of
from ingress.commands.events import EventFeeds
from ingress.commands.operations import OperationLog
from ingress.commands.stream_places import PlacedStream
from ingress.http import answers
from ingress.http.parts import parts_of
from ingress.http.requests import reading
from ingress.identity.roles import OPERATORS
from ingress.identity.signed_requests import SignedRequests
from schemas import errors, services
from schemas.identity import REQUEST_ID, operator_scope

if TYPE_CHECKING:
    from ingress.commands.events import EventFeed
    from ingress.identity.caller import Caller

router: Final = APIRouter()


@router.post("/v1/commands")
async def commands(request: Request) -> Response:
    """Carries out one command per line and answers one line for each, in order."""
    parts = parts_of(request)
    caller = await calling.caller_of(request, *services.WRITE_SCOPES)
    terms, asked = calling.terms(request)
    raw = await reading.body(request, reading.NDJSON, limits.COMMANDS_BODY_BYTES_MAX)
    proof = await parts.get(SignedRequests).proof(request, caller.principal, raw)
    lines = lines_of(raw)
    if not lines:
        raise errors.MalformedRequest("Send at least one command, one JSON object per line.")
    if len(lines) > limits.COMMANDS_LINES_MAX:
        raise errors.TooLarge(f"At most {limits.COMMANDS_LINES_MAX} commands fit into one request.")
    found = await parts.get(Commands).many(caller, lines, terms, proof)
    headers = dict(calling.NO_STORE)
    if applied := asked.applied():
        headers["Preference-Applied"] = applied
    text = b"".join(answers.line(answer) + b"\n" for answer in found)
    return Response(text, headers=headers, media_type=reading.NDJSON[0])


@router.get("/v1/operations/{request_id}")
async def get_operation(request: Request, request_id: str) -> Response:
    """What became of a command."""
    log = parts_of(request).get(OperationLog)
    caller = await calling.caller_of(request, *services.READ_SCOPES, *OPERATORS)
    await parts_of(request).get(Admissions).require_reads(caller)
    if not REQUEST_ID.match(request_id):
        raise errors.NotFound
    try:
        document = await log.find(caller, request_id, caller.principal)
    except errors.NotFound:
        if caller.scopes.isdisjoint(OPERATORS):
            raise
        as_operator = operator_scope(caller.principal, caller.subject)
        document = await log.find(caller, request_id, as_operator)
    return calling.json(document)


@router.get("/v1/events")
async def list_events(request: Request) -> Response:
    """The caller's events after a place."""
    caller, feed = await _feed(request)
    limit = reading.limit(request, limits.EVENTS_PAGE_LIMIT_DEFAULT, limits.EVENTS_PAGE_LIMIT_MAX)
    document = await feed.events.page(caller.principal, limit, reading.query(request, "cursor"))
    return calling.json(document)


@router.get("/v1/events/stream")
async def stream_events(request: Request) -> Response:
    """The caller's events as they commit (server-sent events); Last-Event-ID or cursor resumes."""
    caller, feed = await _feed(request)
    cursor = request.headers.get("last-event-id") or reading.query(request, "cursor")
    place = feed.events.place(caller.principal, cursor) if cursor else await feed.events.end()
    feed.streams.admit(caller)  # no await from here to the response, which frees the place
    may_read = partial(parts_of(request).get(Admissions).require_reads, caller)
    return PlacedStream(feed.streams.stream(caller, place, may_read), partial(feed.streams.leave, caller))


async def _feed(request: Request) -> tuple[Caller, EventFeed]:
    """The caller, and the events of the named service, or of the first that its token may read."""
    caller = await calling.caller_of(request, *services.READ_SCOPES, *OPERATORS)
    await parts_of(request).get(Admissions).require_reads(caller)
    feeds = parts_of(request).get(EventFeeds)
    named = reading.query(request, "service")
    return caller, feeds.named(caller, named) if named is not None else feeds.of(caller)

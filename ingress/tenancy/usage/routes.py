"""Usage of a tenant: events in, sums and contradictions out."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any, Final

import msgspec
from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import Response

from ingress.commands import calling
from ingress.http.parts import parts_of
from ingress.http.requests import reading, strict_json
from ingress.tenancy.callers import member
from ingress.tenancy.usage.producer import UsageProducer
from ingress.tenancy.usage.sums import AGGREGATIONS, GROUPS, WINDOWS, Asked, Usage, require_span, wrong
from schemas import errors
from schemas.tenancy import attribute_names, limits
from schemas.tenancy.dimension import FAULT, is_dimension
from schemas.tenancy.instants import fault, parsed
from schemas.tenancy.usage_event import read_all, record_key, refuse_tenant

if TYPE_CHECKING:
    from starlette.datastructures import Headers

    from ingress.tenancy.usage.producer import Letter

router: Final = APIRouter()
READ: Final = "usage:read"
WRITE: Final = "usage:write"
_ONE: Final = "application/cloudevents+json"
_BATCH: Final = "application/cloudevents-batch+json"
_PERCENTS: Final = range(1, 101)
_encode: Final = msgspec.json.Encoder().encode


@router.post("/v1/usage/events")
async def meter(request: Request) -> Response:
    """Takes all events of a request, or none. 202: all replicas of Kafka have them."""
    _, known = await member(request, WRITE, writes=True, shows=False)
    raw = await reading.body(request, (_ONE, _BATCH), limits.USAGE_BODY_BYTES_MAX)
    _require_fields(request.headers)
    found = strict_json.parse(raw)
    is_batch = request.headers.get("content-type", "").partition(";")[0].strip().lower() == _BATCH
    if is_batch != isinstance(found, list):
        raise errors.MalformedRequest("A batch is a JSON array of events, and a single event an object.")
    events: list[Any] = found if is_batch else [found]
    if len(events) > limits.USAGE_EVENTS_MAX:
        raise errors.TooLarge(f"At most {limits.USAGE_EVENTS_MAX} events fit into one request.")
    if not events:
        raise errors.MalformedRequest("Send at least one event.")
    sent = letters(known.tenant.tenant_id, events, is_batch=is_batch)
    await parts_of(request).get(UsageProducer).send(sent)
    return calling.json({"accepted": len(sent)}, status=202)


def _require_fields(headers: Headers) -> None:
    """Fields of an event's binary form may stand beside its JSON, and say nothing more; their names are judged."""
    names = [name.lower() for name in headers if name.lower().startswith(attribute_names.OF_HTTP)]
    refuse_tenant({name.removeprefix(attribute_names.OF_HTTP): "" for name in names})
    if wrong := attribute_names.of_fields(names, attribute_names.OF_HTTP):
        raise errors.InvalidCommand(wrong[: limits.USAGE_ERRORS_MAX])


def letters(tenant_id: str, events: list[Any], *, is_batch: bool) -> list[Letter]:
    """The records of all events. Raises MalformedRequest, InvalidCommand, TooLarge: then nothing is sent."""
    for event in events:
        refuse_tenant(event)
    taken = read_all(events, time.time_ns() // 1_000, is_batch=is_batch)
    values = [_encode(event) for event in events]
    if max(map(len, values)) > limits.USAGE_EVENT_BYTES_MAX:  # Kafka would refuse it again and again
        raise errors.TooLarge(f"An event has {limits.USAGE_EVENT_BYTES_MAX // 1024} KiB at most.")
    return [(record_key(tenant_id, one.source, one.event_id), value) for one, value in zip(taken, values, strict=True)]


@router.get("/v1/usage")
async def usage(request: Request) -> Response:
    """Exact sums over a span, by window and group."""
    _, known = await member(request, READ)
    zone = reading.query(request, "timezone")
    asked = Asked(
        dimension=_dimension(request),
        from_us=_instant(request, "from"),
        to_us=_instant(request, "to"),
        window=reading.choice(request, "window", WINDOWS) or "none",  # type: ignore[arg-type] # one of them
        group=reading.choice(request, "group", GROUPS),
        timezone=known.tenant.timezone if zone is None else zone,
        aggregation=reading.choice(request, "aggregation", AGGREGATIONS) or "sum",
        percent=_percent(request),
    )
    require_span(asked, time.time_ns() // 1_000)
    return calling.json(await parts_of(request).get(Usage).sums(known.tenant.tenant_id, asked))


@router.get("/v1/usage_dimensions")
async def dimensions(request: Request) -> Response:
    """What the caller's tenant metered, and may ask the usage of."""
    _, known = await member(request, READ)
    return calling.json(await parts_of(request).get(Usage).dimensions(known.tenant.tenant_id, *calling.place(request)))


@router.get("/v1/usage_conflicts")
async def conflicts(request: Request) -> Response:
    """Events that said something else than what counts of their identity, newest first."""
    _, known = await member(request, READ)
    return calling.json(await parts_of(request).get(Usage).conflicts(known.tenant.tenant_id, *calling.place(request)))


def _dimension(request: Request) -> str:
    text = reading.query(request, "dimension") or ""
    if not is_dimension(text):
        raise wrong("dimension", FAULT)
    return text


def _instant(request: Request, name: str) -> int:
    text = reading.query(request, name)
    found = parsed(text)
    if found is None:
        otherwise = "must be an RFC 3339 time such as 2026-01-02T03:04:05Z, with + written as %2B"
        raise wrong(name, fault(text, otherwise))
    return found


def _percent(request: Request) -> int:
    text = reading.query(request, "percentile") or "95"
    if text not in map(str, _PERCENTS):
        raise wrong("percentile", "must be a whole number from 1 to 100")
    return int(text)

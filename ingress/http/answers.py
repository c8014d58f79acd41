"""Answers to a mutating call, before they are an HTTP response or an NDJSON line.

A replay must be the same status and the same bytes as the first answer: both are made here, from the stored
body alone.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any, Final

import msgspec
from msgspec import Struct
from starlette.responses import Response

from ingress.http import metrics, problems

if TYPE_CHECKING:
    from prometheus_client import Counter

    from schemas import errors
    from schemas.operation import Operation

_JSON: Final = "application/json"
_encode: Final = msgspec.json.Encoder().encode


class Answer(Struct, frozen=True, kw_only=True):
    """What one command is answered: a JSON object and the few facts that become header fields."""

    status: int
    body: bytes
    code: str | None = None  # of a problem
    replayed: bool = False
    pending: str | None = None  # the request id to ask for
    location: str | None = None  # the collection that it was created in; {id} in it is the aggregate
    result_id: str = "id"  # the field of the result that names it


@cache
def _committed(result_id: str) -> msgspec.json.Decoder[Any]:
    """Reads of a stored result what header fields say: the id in that field, and the version, if it has one."""
    fields: list[Any] = [("id", str, msgspec.field(name=result_id)), ("version", int | None, None)]
    versioned = msgspec.defstruct("_Versioned", fields)
    event = msgspec.defstruct("_Event", [("aggregate_key", str, "")])
    return msgspec.json.Decoder(msgspec.defstruct("_Committed", [("result", versioned), ("event", event)]))


@cache
def _answers(status: int) -> Counter:
    """Those of a status: to find them by its text took a line of a list as long as to write it."""
    return metrics.ANSWERS.labels(status)


_refused: Final = msgspec.json.Decoder(dict[str, Any])


def committed(operation: Operation, body: bytes, *, replayed: bool) -> Answer:
    """The answer to a committed command: its stored result as it is."""
    if operation.creates is None:
        return Answer(status=200, body=body, replayed=replayed, result_id=operation.result_id)
    return Answer(status=201, body=body, replayed=replayed, location=operation.made_at, result_id=operation.result_id)


def refused(body: bytes, *, replayed: bool) -> Answer:
    """The answer to a refusal {"code", "detail", ...}: a problem."""
    refusal = _refused.decode(body)
    code = refusal.pop("code")
    detail = refusal.pop("detail", problems.row(code).title)
    problem = problems.render(code, detail, refusal)
    return Answer(status=problems.row(code).status, body=problem, code=code, replayed=replayed)


def failed(error: errors.PlatformError) -> Answer:
    """The answer to a call that never became a decided command."""
    return Answer(status=problems.row(error.code).status, body=problems.of_error(error), code=error.code)


def pending(request_id: str) -> Answer:
    """The answer to a command that Kafka holds and nobody decided yet."""
    body = _encode({"request_id": request_id, "status": "pending"})
    return Answer(status=202, body=body, pending=request_id)


def response(answer: Answer, applied: str | None, request_id: str | None) -> Response:
    """The HTTP response of an answer."""
    _answers(answer.status).inc()
    headers = {"Cache-Control": "no-store"} if answer.code is None else problems.headers_of(answer.code)
    if applied:
        headers["Preference-Applied"] = applied
    if request_id:
        headers["X-Request-Id"] = request_id
    if answer.replayed:
        headers["Idempotency-Replayed"] = "true"
    if answer.pending:
        headers["Location"] = f"/v1/operations/{answer.pending}"
    elif answer.code is None:
        said = _committed(answer.result_id).decode(answer.body)
        found = said.result
        if found.version is not None:
            headers["ETag"] = f'"{found.version}"'
        if answer.location:
            headers["Location"] = f"{answer.location.replace('{id}', said.event.aggregate_key)}/{found.id}"
    media_type = _JSON if answer.code is None else problems.MEDIA_TYPE
    return Response(answer.body, answer.status, headers, media_type)


def line(answer: Answer) -> bytes:
    """The NDJSON line of an answer: its status beside the members of its body, or beside ``problem``."""
    _answers(answer.status).inc()
    head = b'{"status":%d' % answer.status
    if answer.replayed:
        head += b',"replayed":true'
    if answer.code is not None:
        return head + b',"problem":' + answer.body + b"}"
    if answer.pending:
        return head + b',"request_id":' + _encode(answer.pending) + b"}"
    return head + b"," + answer.body[1:]

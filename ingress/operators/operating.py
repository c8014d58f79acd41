"""One operator's command, from the request to its answer: audited before it is sent, and with what became of it.

Its identity is of the person: two operators who use the same key do not meet, and a retry of one's own is known.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import structs

from ingress.commands import calling, envelope, envelope_fields
from ingress.commands.commands import Commands
from ingress.http import answers
from ingress.http.parts import Parts, parts_of
from ingress.http.requests import reading
from ingress.operators.audit import Audit
from schemas import errors, limits
from schemas.fields import validation
from schemas.identity import operator_scope

if TYPE_CHECKING:
    from starlette.requests import Request
    from starlette.responses import Response

    from ingress.commands.commands import Terms
    from ingress.identity.caller import Caller
    from schemas.operation import Operation


def person(caller: Caller) -> str:
    """Who acts, for what a person must answer for. Raises Forbidden for a token that names none."""
    if not validation.is_person(caller.subject):
        raise errors.Forbidden("The token's subject names no person.")
    return caller.subject


async def operate(
    request: Request, operation: Operation, action: str, object_id: str, person_field: str | None = None
) -> Response:
    """Carries the command out. ``person_field`` of the payload is filled with who acts, which only the token says."""
    parts = parts_of(request)
    async with parts.get(Audit).operator(request, action, object_id, audits_itself=True) as caller:
        fields = envelope_fields.header_fields(request.headers)
        asked_terms, asked = calling.terms(request)
        raw = await reading.body(request, reading.JSON, limits.BODY_BYTES_MAX)
        answer, request_id = await carry_out(
            parts, caller, operation, action, object_id, raw, fields, asked_terms, person_field
        )
    return answers.response(answer, asked.applied(), request_id)


async def carry_out(
    parts: Parts,
    caller: Caller,
    operation: Operation,
    action: str,
    object_id: str,
    raw: bytes,
    fields: envelope_fields.Fields,
    terms: Terms,
    person_field: str | None = None,
) -> tuple[answers.Answer, str]:
    """The answer to a verified operator's command and its request id; audited before it is sent and after."""
    who = person(caller)
    _require_name(operation, object_id)
    said_by_token = {person_field: who} if person_field else {}
    call = envelope.read_call(operation, object_id, raw, fields, caller.principal, said_by_token)
    # Before it is sent: what cannot be audited is not done. The outcome has a row of its own.
    details = {"idempotency_key": call.idempotency_key, "payload": call.payload}
    await parts.get(Audit).append(caller, action, object_id, "begun", details)
    as_operator = structs.replace(caller, principal=operator_scope(caller.principal, caller.subject))
    answer, request_id = await parts.get(Commands).one(as_operator, call, terms)
    became = {"request_id": request_id, "status": answer.status, "code": answer.code, "replayed": answer.replayed}
    outcome = "done" if answer.code is None else "refused"
    await parts.get(Audit).append(caller, action, object_id, outcome, became)
    return answer, request_id


def _require_name(operation: Operation, text: str) -> None:
    """Raises NotFound for what can name no object of this operation."""
    if not operation.id_form.fullmatch(text):
        raise errors.NotFound

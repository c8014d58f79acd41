"""Decisions of persons: each has a retry identity, and a function of the database carries it out.

The function decides in one transaction with its audit row; here its word becomes an answer or an error.
"""

from __future__ import annotations

from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from ingress.commands import calling, envelope, envelope_fields
from ingress.http.parts import Parts, parts_of
from ingress.http.requests import reading, strict_json
from ingress.operators import operating
from ingress.operators.audit import Audit
from schemas import errors, limits
from schemas.fields import validation

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Mapping

    from starlette.requests import Request

    from ingress.commands.envelope_fields import Fields

#: the database's word for what the same person did before
KNOWN: Final = "known"
_ENVELOPE: Final = frozenset(("idempotency_key", "payload"))


class FourEyesRequired(errors.Forbidden):
    """Another person than the author has to approve it."""

    code = "four_eyes_required"


@dataclass(frozen=True, slots=True)
class Decision:
    """What a person sent, and who it is."""

    parts: Parts
    person: str
    body: dict[str, Any]
    fields: Fields

    def require_no_body(self) -> None:
        """Raises MalformedRequest for an approval that would say anything of its own."""
        if self.body:
            raise errors.MalformedRequest("An approval has no body: what was proposed is what is approved.")


@asynccontextmanager
async def looking(request: Request, action: str, audited_id: str, *ids: str) -> AsyncIterator[Parts]:
    """An operator reads; audited. Raises as ``Audit.operator``, and NotFound for what can be nobody's id."""
    parts = parts_of(request)
    async with parts.get(Audit).operator(request, action, audited_id):
        for each in (audited_id, *ids):
            calling.require_id(each)
        yield parts


@asynccontextmanager
async def deciding(request: Request, action: str, audited_id: str, *ids: str) -> AsyncIterator[Decision]:
    """An operator decides: refusals are audited here, what is done in the block's own transaction.

    Raises as ``looking``, ``operating.person`` and ``body_of``.
    """
    parts = parts_of(request)
    async with parts.get(Audit).operator(request, action, audited_id, audits_itself=True) as caller:
        for each in (audited_id, *ids):
            calling.require_id(each)
        fields = envelope_fields.header_fields(request.headers)
        yield Decision(parts, operating.person(caller), await body_of(request), fields)


async def body_of(request: Request) -> dict[str, Any]:
    """The JSON object that a decision carries; nothing is an empty one. Raises as ``reading.body``."""
    raw = await reading.body(request, reading.JSON, limits.BODY_BYTES_MAX)
    body = strict_json.parse(raw) if raw.strip() else {}
    if not isinstance(body, dict):
        raise errors.MalformedRequest("The body must be a JSON object.")
    return body


def identity_and_payload(body: dict[str, Any], fields: Fields) -> tuple[str, dict[str, Any]]:
    """The retry identity and the payload, of an envelope or of a bare payload with the header Idempotency-Key.

    Raises MalformedRequest, IdempotencyKeyRequired or InvalidCommand.
    """
    if not _ENVELOPE & body.keys():
        body = {"payload": body}
    key, payload = body.get("idempotency_key", fields.idempotency_key), body.get("payload")
    if body.keys() - _ENVELOPE or not isinstance(payload, dict):
        raise errors.MalformedRequest("Send {idempotency_key, payload}, or the bare payload with Idempotency-Key.")
    if fields.idempotency_key not in (None, key):
        raise errors.MalformedRequest("The header and the body name different idempotency keys.")
    if key is None:
        raise errors.IdempotencyKeyRequired
    if reason := validation.clean_text(key, limits.IDEMPOTENCY_KEY_LENGTH_MAX):
        raise errors.InvalidCommand([{"field": "idempotency_key", "reason": reason}])
    envelope.refuse_card_number(key)
    return key, payload


def require(word: str, done: str, conflicts: Mapping[str, str] | None = None) -> bool:
    """Whether the same person did it before, by the database's word; an error, unless that or done now.

    ``conflicts`` says in a sentence what words of its own a function has for a state that does not allow it.
    """
    if word in (done, KNOWN):
        return word == KNOWN
    if word == "not_found":
        raise errors.NotFound
    if word == "key_reused":
        raise errors.KeyReused
    if word == "four_eyes_required":
        raise FourEyesRequired
    if conflicts is not None and word in conflicts:
        raise errors.StateConflict(conflicts[word])
    subject, _, state = word.partition("_")
    raise errors.StateConflict(f"The {subject} is {state}.")

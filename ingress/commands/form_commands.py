"""Carries out the command of a page's form in the name of its session, and says in words what became of it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import msgspec
from msgspec import Struct

from ingress.commands import calling, envelope, envelope_fields
from ingress.commands.commands import Commands
from ingress.http.parts import parts_of
from schemas import errors
from schemas.services import OPERATIONS

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from starlette.requests import Request

    from ingress.identity.caller import Caller

Json = dict[str, Any]
_DIGITS_MAX: Final = 15


class Outcome(Struct, frozen=True, kw_only=True):
    """The result of a command, or the reason why it was refused; neither while it is undecided."""

    status: int
    result: Json | None = None
    refusal: str | None = None

    @property
    def is_refused(self) -> bool:
        """Whether nothing was changed."""
        return self.refusal is not None


def in_words(wrong: Iterable[Mapping[str, str]]) -> str:
    """The faults of a form's values, each with its field."""
    return "; ".join(f"{one['field'].removeprefix('payload.')} {one['reason']}" for one in wrong)


async def carry_out(
    request: Request,
    caller: Caller,
    name: str,
    key: str,
    payload: Json,
    path_id: str | None = None,
    version: str | None = None,
) -> Outcome:
    """Carries out one operation for a caller, once for each key.

    Raises Forbidden without the scope of the operation, InvalidCommand, NotFound, and as ``Commands.one``.
    """
    operation = OPERATIONS[name]
    caller.require(operation.scope)
    if path_id is not None and not operation.id_form.fullmatch(path_id):
        raise errors.NotFound
    said = envelope_fields.Fields(idempotency_key=key, expected_version=_version(version))
    raw = msgspec.json.encode({"payload": payload})
    call = envelope.read_call(operation, path_id, raw, said, caller.principal)
    terms, _ = calling.terms(request)
    answer, _ = await parts_of(request).get(Commands).one(caller, call, terms)
    if answer.pending is not None:
        return Outcome(status=answer.status)
    body = msgspec.json.decode(answer.body)
    if answer.code is not None:
        return Outcome(status=answer.status, refusal=in_words(body.get("errors", ())) or body["detail"])
    return Outcome(status=answer.status, result=body["result"])


def _version(text: str | None) -> int | None:
    """The version in a form. Raises MalformedRequest if it is none."""
    if text is None:
        return None
    if not text.isascii() or not text.isdecimal() or len(text) > _DIGITS_MAX:
        raise errors.MalformedRequest("The form names no version; load the page again.")
    return int(text)

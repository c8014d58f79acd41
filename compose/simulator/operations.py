"""The nouns of the processor: the request it takes, the hold it keeps, the outcome it stores and repeats.

Reading a request is strict and changes nothing: what is not exactly an operation never reaches the book.
"""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass
from typing import Annotated, Final, Literal

import msgspec

from compose.simulator import errors
from schemas import limits

Kind = Literal["authorize", "purchase", "capture", "void"]
Status = Literal["authorized", "captured", "voided", "declined", "failed"]
# Printable ASCII without blanks: nothing that a log, a header or a settlement file could mangle.
Identity = Annotated[str, msgspec.Meta(max_length=limits.SIMULATOR_IDENTITY_LENGTH_MAX, pattern=r"^[!-~]+\Z")]
# A void names no amount of its own (it releases what is left), so zero is allowed here and refused below.
AmountMinor = Annotated[int, msgspec.Meta(ge=0, le=limits.AMOUNT_MINOR_MAX)]
CurrencyCode = Annotated[str, msgspec.Meta(pattern=r"^[A-Z]{3}\Z")]

_OPERATION_ID: Final = re.compile(rf"[A-Za-z0-9_.:~-]{{1,{limits.SIMULATOR_IDENTITY_LENGTH_MAX}}}")
_NEW_MONEY: Final = ("authorize", "purchase")


class OperationBody(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """The body of POST /v1/operations."""

    kind: Kind
    reference: Identity
    amount: AmountMinor
    currency: CurrencyCode
    token: Identity | None = None
    parent: Identity | None = None
    final: bool = True


class Outcome(msgspec.Struct, frozen=True, kw_only=True):
    """What the processor did: the answer of the first send, of every replay and of every query."""

    provider_ref: str
    operation_id: str
    kind: Kind
    status: Status
    reference: str
    amount: int
    currency: str
    decline_code: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Operation:
    """One request under its identity; ``fingerprint`` tells a replay from another request with its key."""

    operation_id: str
    fingerprint: bytes
    body: OperationBody


@dataclass(frozen=True, slots=True, kw_only=True)
class Hold:
    """An authorization and what became of it: amount = captured + released + remainder, always."""

    provider_ref: str
    token: str
    reference: str
    currency: str
    amount: int
    captured: int
    released: int

    @property
    def remainder(self) -> int:
        """What may still be captured or released."""
        return self.amount - self.captured - self.released


_decoder: Final = msgspec.json.Decoder(OperationBody)
_encoder: Final = msgspec.json.Encoder()


def provider_ref_for(operation_id: str) -> str:
    """The processor's own name of an operation; the same operation has the same name after any restart."""
    return "sim_" + hashlib.sha256(operation_id.encode()).hexdigest()[:24]


def is_operation_id(text: str) -> bool:
    """Whether ``text`` can be an identity at all."""
    return _OPERATION_ID.fullmatch(text) is not None


def operation_read(operation_id: str | None, content: bytes) -> Operation:
    """A valid operation, or an error that names what is wrong. Raises errors.SimulatorError."""
    if operation_id is None or not is_operation_id(operation_id):
        raise errors.IdempotencyKeyRequired
    try:
        body = _decoder.decode(content)
    except msgspec.ValidationError as error:
        raise errors.InvalidOperation(errors=[_field_error(str(error))]) from error
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise errors.MalformedRequest from error
    wrong = _contradictions(body)
    if wrong:
        raise errors.InvalidOperation(errors=wrong)
    # The canonical form, not the bytes: another order of fields or other blanks are the same request.
    fingerprint = hashlib.sha256(_encoder.encode(body)).digest()
    return Operation(operation_id=operation_id, fingerprint=fingerprint, body=body)


def _contradictions(body: OperationBody) -> list[dict[str, str]]:
    wrong = []
    if body.kind in _NEW_MONEY:
        if body.token is None:
            wrong.append({"field": "token", "reason": f"{body.kind} needs the token of a card"})
        if body.parent is not None:
            wrong.append({"field": "parent", "reason": f"{body.kind} has no parent"})
    elif body.parent is None:
        wrong.append({"field": "parent", "reason": f"{body.kind} needs its authorization's provider_ref"})
    if body.amount == 0 and body.kind != "void":
        wrong.append({"field": "amount", "reason": "must be at least 1 minor unit"})
    return wrong


def _field_error(message: str) -> dict[str, str]:
    reason, _, path = message.partition(" - at `$")
    return {"field": path.strip(".`") or "body", "reason": reason}

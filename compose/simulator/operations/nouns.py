"""The nouns of the processor: the request it takes, what it holds and took, the outcome it stores and repeats.

Reading a request is strict and changes nothing: what is not exactly an operation never reaches the book.
"""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass
from typing import Annotated, Final, Literal

import msgspec

from compose.simulator import errors
from compose.simulator import limits as simulator_limits
from compose.simulator.operations import cards
from compose.simulator.requests import read
from schemas import limits

Kind = Literal["authorize", "purchase", "increment", "capture", "void", "refund", "evidence"]
PendingReason = Literal["processing", "insufficient_funds", "charge_pending"]  # of a refund
Status = Literal[
    "authorized", "captured", "voided", "refunded", "submitted", "declined", "failed", "requires_action", "pending"
]
# Printable ASCII without blanks: nothing that a log, a header or a settlement file could mangle.
Identity = Annotated[str, msgspec.Meta(max_length=simulator_limits.SIMULATOR_IDENTITY_LENGTH_MAX, pattern=r"^[!-~]+\Z")]
# A void names no amount of its own (it releases what is left), so zero is allowed here and refused below.
AmountMinor = Annotated[int, msgspec.Meta(ge=0, le=limits.AMOUNT_MINOR_MAX)]
MoneyMinor = Annotated[int, msgspec.Meta(ge=1, le=limits.AMOUNT_MINOR_MAX)]
CurrencyCode = Annotated[str, msgspec.Meta(pattern=r"^[A-Z]{3}\Z")]

_OPERATION_ID: Final = re.compile(rf"[A-Za-z0-9_.:~-]{{1,{simulator_limits.SIMULATOR_IDENTITY_LENGTH_MAX}}}")
_NEW_MONEY: Final = ("authorize", "purchase")


class OperationBody(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """What is asked for; ``token`` names a card, never by its number."""

    kind: Kind
    reference: Identity
    amount: AmountMinor
    currency: CurrencyCode
    token: Identity | None = None
    parent: Identity | None = None
    final: bool = True
    evidence: dict[str, str] | None = None


class _Request(OperationBody, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """The body of POST /v1/operations: an operation whose card may be given by its number."""

    card: cards.Card | None = None


class Outcome(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What the processor did: the answer of the first send, of every replay and of every query."""

    provider_ref: str
    operation_id: str
    kind: Kind
    status: Status
    reference: str
    amount: int
    currency: str
    decline_code: str | None
    #: Told when it is true: a refund that had succeeded before it failed.
    after_success: bool = False
    #: Where the payer has to go.
    redirect_url: str | None = None
    #: When the hold ends.
    authorized_until_ms: int | None = None
    #: Why a refund is pending.
    pending_reason: PendingReason | None = None


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


@dataclass(frozen=True, slots=True, kw_only=True)
class Capture:
    """Money that was taken and what became of it: never more given back than was taken."""

    provider_ref: str
    operation_id: str
    token: str
    reference: str
    currency: str
    amount: int
    refunded: int
    disputed: int

    @property
    def remainder(self) -> int:
        """What may still be refunded or disputed."""
        return self.amount - self.refunded - self.disputed


_decoder: Final = msgspec.json.Decoder(_Request)
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
    request = read(content, _decoder)
    wrong = _contradictions(request)
    if wrong:
        raise errors.InvalidOperation(errors=wrong)
    body = _without_number(request)
    # The canonical form, not the bytes: another order of fields or other blanks are the same request.
    canonical = msgspec.structs.asdict(body)
    if body.evidence is None:  # as books of earlier days have it
        del canonical["evidence"]
    fingerprint = hashlib.sha256(_encoder.encode(canonical)).digest()
    return Operation(operation_id=operation_id, fingerprint=fingerprint, body=body)


def _without_number(request: _Request) -> OperationBody:
    return OperationBody(
        kind=request.kind,
        reference=request.reference,
        amount=request.amount,
        currency=request.currency,
        token=request.token if request.card is None else cards.kept_as(request.card),
        parent=request.parent,
        final=request.final,
        evidence=request.evidence,
    )


def _contradictions(body: _Request) -> list[dict[str, str]]:
    wrong = []
    if body.kind in _NEW_MONEY:
        if (body.token is None) is (body.card is None):
            wrong.append({"field": "token", "reason": f"{body.kind} needs a card or the token of one"})
        if body.parent is not None:
            wrong.append({"field": "parent", "reason": f"{body.kind} has no parent"})
    else:
        if body.parent is None:
            parent = {"refund": "capture", "evidence": "dispute"}.get(body.kind, "authorization")
            wrong.append({"field": "parent", "reason": f"{body.kind} needs its {parent}'s provider_ref"})
        if body.card is not None:
            wrong.append({"field": "card", "reason": f"{body.kind} follows the card of its parent"})
    if body.card is not None and not cards.is_card_number(body.card.number):
        wrong.append({"field": "card.number", "reason": "is no card number"})
    if (body.kind == "evidence") is not bool(body.evidence):
        wrong.append({"field": "evidence", "reason": "is what an operation of kind evidence has, and no other"})
    if body.amount == 0 and body.kind != "void":
        wrong.append({"field": "amount", "reason": "must be at least 1 minor unit"})
    return wrong

"""What an event of a processor says, in our words. Plain data; ``vocabulary`` reads it out of bodies."""

from __future__ import annotations

from msgspec import Struct


class AttemptOutcome(Struct, frozen=True, kw_only=True):
    """The outcome of one operation of ours. Amount and currency as echoed: the owner judges a mismatch."""

    operation_id: str
    status: str  # of the attempt; "charged" = success of a charge, whichever kind the attempt is
    provider_ref: str | None
    amount: int | None
    currency: str | None
    error_code: str | None
    only_kind: str | None = None  # says nothing about attempts of another kind
    after_success: bool = False  # a refund's failure that came after its success, whatever we have heard of that
    redirect_url: str | None = None  # where the payer has to go
    authorized_until: int | None = None  # when the hold ends, microseconds since the epoch
    next_action: str | None = None  # what the payer has to do, when that is more than to go there
    pending_reason: str | None = None  # why a refund is pending


class DisputeChange(Struct, frozen=True, kw_only=True):
    """The state of a dispute and of its money. ``intent_id`` is ours; empty when the event only has ``charge_ref``."""

    intent_id: str
    provider_ref: str
    status: str
    funds: str
    amount: int
    currency: str
    fee: int
    reason: str | None
    evidence_due_by: int | None = None  # by when it wants evidence, microseconds since the epoch
    charge_ref: str | None = None  # the processor's name of the charge: what it is about when nothing of ours is on it


class Nothing(Struct, frozen=True):
    """Nothing that concerns us."""

    why: str


class Unknown(Struct, frozen=True):
    """Money of which we know nothing: ``reference`` names the processor's object, for a person."""

    reference: str


class Unreadable(Struct, frozen=True):
    """A type that we know with a body that we cannot read: a person has to look, nothing is guessed."""

    why: str


Finding = AttemptOutcome | DisputeChange | Nothing | Unknown | Unreadable

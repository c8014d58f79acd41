"""What a decision is made with and made of. Plain data: the domain has no clock and no randomness."""

from __future__ import annotations

from msgspec import Struct

from dataflows.domain.fees import FeeSchedule
from dataflows.domain.ledger import Posting
from schemas.records import PaymentIntent, ProcessorAttempt


class Context(Struct, frozen=True, kw_only=True):
    """What a decision may know besides the aggregate and the command: the time (microseconds) and the policies."""

    now: int
    fees: FeeSchedule
    processor: str  # where new intents are routed


class Payment(Struct, kw_only=True):
    """The aggregate as one owner holds it: the intent and all its attempts by number."""

    intent: PaymentIntent
    attempts: dict[int, ProcessorAttempt]


class Decision(Struct, frozen=True, kw_only=True):
    """The next state of one aggregate and what goes with it in the same commit."""

    intent: PaymentIntent
    attempt: ProcessorAttempt | None = None  # the one attempt made or changed
    postings: tuple[Posting, ...] = ()

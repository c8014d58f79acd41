"""What a processor adapter is: it sends one operation under its identity, asks for it, and says what is *known*.

The six answers are the whole vocabulary. If an adapter called something NotSent or NotExecuted that may have been
executed, a customer could be charged twice: in doubt the answer is Unknown.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final, Literal, Protocol, get_args

from schemas.payments.records import RefundPendingReason

DefinitiveStatus = Literal["authorized", "captured", "voided", "refunded", "submitted", "declined", "failed"]
DEFINITIVE_STATUSES: frozenset[str] = frozenset(get_args(DefinitiveStatus))
#: a refund that had succeeded and failed then: another fact than one that never succeeded, whoever tells it
FailedLater = Literal["failed_later"]


#: what a merchant says to the payer through the processor, fields of the intent
FOR_PAYER: Final = ("description", "receipt_email", "statement_descriptor", "return_url")
#: kinds of attempts that begin a payment at a processor
CHARGES: Final = frozenset({"authorize", "purchase"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """One attempt as a processor needs to know it; ``operation_id`` is the same on every send."""

    operation_id: str
    intent_id: str
    merchant_id: str
    kind: str
    amount: int
    currency: str
    payment_method: str
    parent_ref: str | None
    final: bool
    evidence: Mapping[str, str] | None = None  # of an attempt that submits it, for the dispute ``parent_ref``
    for_payer: Mapping[str, str] = field(default_factory=dict)  # of FOR_PAYER, what the merchant gave; of a charge only


@dataclass(frozen=True, slots=True, kw_only=True)
class Definitive:
    """The processor did it, or refused it, for good. Amount and currency are its own words, not ours."""

    status: DefinitiveStatus | FailedLater
    provider_ref: str | None
    amount: int | None
    currency: str | None
    error_code: str | None
    authorized_until: int | None = None  # when the hold ends, microseconds since the epoch


@dataclass(frozen=True, slots=True)
class Pending:
    """The processor has it and will say later what came of it; asked for meanwhile, as with Unknown."""

    provider_ref: str
    reason: RefundPendingReason | None = None  # why, where the processor says so of a refund


@dataclass(frozen=True, slots=True)
class RequiresAction:
    """The payer has to do something first, at ``redirect_url`` when there is an address; asked for meanwhile.

    ``action`` (``schemas.payments.payer_action``) says what, where that is more than to go there.
    """

    provider_ref: str
    redirect_url: str | None
    action: str | None = None


@dataclass(frozen=True, slots=True)
class Unknown:
    """It may or may not have been executed. ``is_outage``: the processor seems ill, not just hard to read."""

    reason: str
    is_outage: bool = False


@dataclass(frozen=True, slots=True)
class NotExecuted:
    """The processor itself, or the way to it, says that this was not executed; sending it again is safe.

    ``is_for_good``: no later send will be, either. Whether an earlier one was executed is not said by that.
    """

    reason: str
    is_for_good: bool = False


@dataclass(frozen=True, slots=True)
class NotSent:
    """Not one byte of the operation left this process."""

    reason: str


Answer = Definitive | Pending | RequiresAction | Unknown | NotExecuted | NotSent


class ProcessorAdapter(Protocol):
    """One processor. Both calls end in bounded time and raise nothing but cancellation."""

    @property
    def name(self) -> str:
        """The processor's name as intents carry it."""
        ...

    @property
    def identity_kept_s(self) -> float:
        """For how long after the first send a repetition is known as one; then nothing in doubt is sent again."""
        ...

    async def send(self, call: Call) -> Answer:
        """Carries the operation out once, however often it is sent."""
        ...

    async def query(self, call: Call) -> Answer:
        """What became of the operation; NotExecuted only when the processor says it does not know it."""
        ...

    async def end_wait(self, call: Call, waits: RequiresAction) -> Answer:
        """Ends a charge that ``waits`` for its payer; what became of it, ``waits`` where the processor ends it itself.

        Never makes a charge, however often it is asked for; in doubt the answer is Unknown, and a query tells.
        """
        ...

    async def is_reachable(self) -> bool:
        """Whether the processor answers something that moves no money; asked while its circuit breaker is open."""
        ...

    async def close(self) -> None:
        """Closes idle connections."""
        ...

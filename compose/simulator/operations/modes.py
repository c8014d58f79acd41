"""How the processor misbehaves, per card token: a table, and two pure questions put to it.

A fault is bounded: it shows on the first sends or queries of one operation and then heals, because what is
tested is that the caller ends at the truth; where no answer ever tells it, a webhook does. Captures and voids follow
the token of their authorization, refunds that of their capture.
Source of the idea: Kill Bill's payment-test-plugin (reference: payments sections 1.6 and 8).
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING, Final

from compose.simulator import limits
from compose.simulator.operations import cards

if TYPE_CHECKING:
    from collections.abc import Mapping

    from compose.simulator.operations.nouns import PendingReason


class Answer(Enum):
    """What leaves the processor on the wire; the book is true in any case."""

    TRUTH = "truth"
    ERROR = "error"  # 500
    GARBAGE = "garbage"  # 200 with a body that no parser takes
    LOST = "lost"  # the connection hangs, then breaks without a byte


@dataclass(frozen=True, slots=True)
class Send:
    """What one POST does: whether it may touch the book, and how it is answered."""

    executes: bool = True
    answer: Answer = Answer.TRUTH


_HONEST: Final = Send()


@dataclass(frozen=True, slots=True, kw_only=True)
class Mode:
    """The behaviour of one token."""

    decline_code: str | None = None
    #: Booked and answered on top of the requested amount: the processor really did something else, so the
    #: caller's integrity check must trip although book and answer agree.
    surplus_minor: int = 0
    delay_ms: int = 0
    first: Send = _HONEST
    later: Send = _HONEST
    garbage_queries: int = 0
    #: Every query gets this in place of the truth, for ever.
    query_answer: Answer = Answer.TRUTH
    #: Operations of these kinds wait for somebody first, the payer or (see below) us.
    actions: frozenset[str] = frozenset()
    #: Refunds are pending for this reason, until somebody ends that.
    refund_pending: PendingReason | None = None
    #: Holds end by themselves after this.
    hold_ms: int = limits.SIMULATOR_AUTHORIZATION_MS
    #: ... or only say that they do, and wait to be asked.
    hold_stays: bool = False
    increment_decline_code: str | None = None
    #: Refunds succeed, and fail for this reason a while later.
    refund_failure: str | None = None
    #: The answer waits until the webhook is delivered.
    webhook_first: bool = False
    webhook_copies: int = 1
    #: Copies are due at any time within this, so they overtake one another.
    webhook_spread_ms: int = 0

    @property
    def is_counted(self) -> bool:
        """True when behaviour depends on how often an operation was seen; the count must then be durable."""
        return self.first != self.later or self.garbage_queries > 0

    def send(self, number: int) -> Send:
        """The behaviour of the ``number``-th POST (from 1) of one operation."""
        return self.first if number <= 1 else self.later

    def query(self, number: int) -> Answer:
        """The answer of the ``number``-th GET (from 1) of one executed operation."""
        return Answer.GARBAGE if number <= self.garbage_queries else self.query_answer


APPROVE: Final = Mode()
INVALID_TOKEN: Final = Mode(decline_code="invalid_token")
DECLINED_CARD: Final = Mode(decline_code="card_declined")

MODES: Final[Mapping[str, Mode]] = {
    "tok_sim_approve": APPROVE,
    "tok_sim_decline": Mode(decline_code="insufficient_funds"),
    "tok_sim_slow": Mode(delay_ms=limits.SIMULATOR_SLOW_ANSWER_MS),
    "tok_sim_timeout_after_commit": Mode(first=Send(answer=Answer.LOST)),
    "tok_sim_error_before_commit": Mode(first=Send(executes=False, answer=Answer.ERROR)),
    "tok_sim_error_after_commit": Mode(first=Send(answer=Answer.ERROR)),
    "tok_sim_wrong_amount": Mode(surplus_minor=1),
    "tok_sim_garbage": Mode(
        first=Send(answer=Answer.GARBAGE),
        later=Send(answer=Answer.GARBAGE),
        garbage_queries=limits.SIMULATOR_GARBAGE_QUERIES,
    ),
    "tok_sim_webhook_only": Mode(
        first=Send(answer=Answer.LOST), later=Send(answer=Answer.ERROR), query_answer=Answer.ERROR
    ),
    "tok_sim_webhook_first": Mode(webhook_first=True),
    "tok_sim_webhook_storm": Mode(
        webhook_copies=limits.SIMULATOR_WEBHOOK_STORM_COPIES,
        webhook_spread_ms=limits.SIMULATOR_WEBHOOK_STORM_SPREAD_MS,
    ),
    "tok_sim_requires_action": Mode(actions=frozenset({"authorize", "purchase"})),
    "tok_sim_refund_requires_action": Mode(actions=frozenset({"refund"})),
    "tok_sim_refund_pending": Mode(actions=frozenset({"refund"}), refund_pending="insufficient_funds"),
    "tok_sim_short_hold": Mode(hold_ms=limits.SIMULATOR_SHORT_AUTHORIZATION_MS),
    "tok_sim_stubborn_hold": Mode(hold_ms=limits.SIMULATOR_SHORT_AUTHORIZATION_MS, hold_stays=True),
    "tok_sim_increment_declined": Mode(increment_decline_code="insufficient_funds"),
    "tok_sim_refund_fails_later": Mode(refund_failure="expired_or_canceled_card"),
}


def mode_of(token: str | None) -> Mode:
    """The mode of a token; one that no card has is declined, as a real processor does. None misbehaves in no way."""
    if token is None:
        return APPROVE
    approves = cards.approves(token)
    if approves is not None:
        return APPROVE if approves else DECLINED_CARD
    return MODES.get(token, INVALID_TOKEN)

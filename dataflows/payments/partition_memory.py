"""What the owner of a partition keeps in memory from one batch to the next."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

from dataflows.payments.domain.decision import Payment
from dataflows.payments.domain.policies.fees import FeeSchedule
from dataflows.payments.policies import PolicyBook
from schemas.payments import limits

_FINISHED: Final = frozenset({"succeeded", "canceled"})


@dataclass(slots=True, kw_only=True)
class PartitionMemory:
    """True while the lease holds. It changes after a commit only: a batch that failed has changed nothing."""

    partition: int
    fees: FeeSchedule
    processor: str
    policies: PolicyBook
    link: int  # of the ledger chain, the last one
    hash: bytes
    remembered: dict[str, Payment] = field(default_factory=dict)  # payments under way as committed, oldest first

    def remember(self, payment: Payment) -> None:
        """Called after the commit that made it so. A finished payment is seldom asked for: it is read then."""
        key = payment.intent.id
        self.remembered.pop(key, None)
        if payment.intent.state not in _FINISHED:
            self.remembered[key] = payment
            if len(self.remembered) > limits.PAYMENTS_REMEMBERED_MAX:
                del self.remembered[next(iter(self.remembered))]

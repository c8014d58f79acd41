"""Payments as the owner runtime sees it."""

from __future__ import annotations

from functools import partial

from dataflows.owner.service import OwnedService
from dataflows.payments.domain.accounts.account import PayoutTerms
from dataflows.payments.domain.policies.fees import FeeSchedule
from dataflows.payments.partition import PaymentsPartition
from dataflows.payments.policies import PolicyBook
from schemas.payments.service import SERVICE


def payments_service(
    fees: FeeSchedule | None = None,
    processor: str = "simulator",
    policies: PolicyBook | None = None,
    payouts: PayoutTerms | None = None,
) -> OwnedService:
    """The payments service; ``processor`` is where new intents are routed when no published rule says otherwise."""
    return OwnedService(
        declared=SERVICE,
        open_partition=partial(
            PaymentsPartition,
            fees=fees or FeeSchedule(),
            processor=processor,
            policies=policies or PolicyBook(),
            payouts=payouts,
        ),
    )

"""Wires one partition owner of payments. Several run side by side: Kafka shares the partitions out among them."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from compose.services.partition_owner import PartitionOwner
from dataflows.payments.domain.accounts.account import PayoutTerms
from dataflows.payments.domain.policies.in_force import Policies
from dataflows.payments.policies import PolicyBook
from dataflows.payments.service import payments_service
from schemas.payments import limits
from schemas.payments.service import SERVICE

if TYPE_CHECKING:
    from compose.settings.settings import Settings


def run(settings: Settings, instance: int) -> None:
    """Owns partitions until SIGTERM, then drains."""
    owner = PartitionOwner(settings, SERVICE)
    policies = PolicyBook(Policies(processors=frozenset(settings.processors)))
    owner.run_periodically("policies", policies.refresh, limits.POLICIES_REFRESH_S)
    policies.wait(owner.stop)
    owner.run(
        payments_service(
            processor=settings.processors[0],
            policies=policies,
            payouts=PayoutTerms(cooling_off_s=settings.payout_cooling_off_s, registered_only=settings.is_production),
        ),
        "owner",
        instance,
        group=os.environ.get("MILLRACE_OWNER_GROUP"),
        driver="plain" if os.environ.get("MILLRACE_OWNER_DRIVER") == "plain" else "bytewax",
    )

"""Payments as the owner runtime sees it: its topics, its records, its partitions."""

from __future__ import annotations

from functools import partial

from dataflows.owner.service import Service
from dataflows.payments.domain.fees import FeeSchedule
from dataflows.payments.partition import PaymentsPartition
from dataflows.payments.policies import PolicyBook
from schemas import records, topics


def payments_service(
    fees: FeeSchedule | None = None, processor: str = "simulator", policies: PolicyBook | None = None
) -> Service:
    """The payments service; ``processor`` is where new intents are routed when no published rule says otherwise."""
    return Service(
        name="payments",
        code="p",
        commands_topic=topics.COMMANDS_PAYMENTS,
        events_topic=topics.EVENTS_PAYMENTS,
        dead_letters_topic=topics.DEAD_LETTERS_PAYMENTS,
        event_type=records.EVENT_TYPE_PAYMENTS,
        event_schema_version=records.EVENT_SCHEMA_VERSION_PAYMENTS,
        event_record="PaymentSystemCommitted",
        dead_letter_record="DeadLetter",
        open_partition=partial(
            PaymentsPartition, fees=fees or FeeSchedule(), processor=processor, policies=policies or PolicyBook()
        ),
    )

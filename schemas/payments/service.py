"""Payments as a service at the boundary."""

from __future__ import annotations

from typing import Final

from schemas.payments import topics
from schemas.payments.frozen_answers import RENDERINGS
from schemas.payments.operations import OPERATIONS
from schemas.payments.records import (
    Dispute,
    MerchantAccount,
    PaymentEventBody,
    PaymentIntent,
    Payout,
    PayoutDestination,
    ProcessorAttempt,
    Refund,
)
from schemas.service import EventType, Service

SERVICE: Final = Service(
    name="payments",
    code="p",
    doc="payment intents",
    read_scope="payments:read",
    owner_role="millrace_owner",
    wired=True,
    partitions=topics.PARTITIONS,
    operations=tuple(OPERATIONS.values()),
    records=(Dispute, MerchantAccount, PaymentIntent, Payout, PayoutDestination, ProcessorAttempt, Refund),
    renderings=RENDERINGS,
    dictionary=1,
    event_types=(
        EventType(
            name="payment_system_committed",
            record="PaymentSystemCommitted",
            body=PaymentEventBody,
            doc="one committed operation on a payment intent",
        ),
    ),
)

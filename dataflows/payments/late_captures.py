"""The cases of money that came for a canceled payment: opened in the commit that learns of it and gives it back.

The refund is automatic, the incident is a person's: a processor took a payer's money for something that the merchant
had called off. One case for each payment, whatever comes again. Source: reference states 3.1, late captures.
"""

from __future__ import annotations

from typing import Final

import msgspec
import structlog

from dataflows.owner.batch import Statement
from dataflows.payments import statements
from dataflows.payments.domain.decision import Decision
from schemas import identity
from schemas.payments.records import PaymentIntent
from sinks.postgres.arrays import Bigints, Texts

KIND: Final = "late_capture"
_json: Final = msgspec.json.Encoder()
log: Final = structlog.get_logger()


class LateCaptures:
    """The cases that one batch opens."""

    def __init__(self) -> None:
        self._opened: dict[str, tuple[str, str, str, int]] = {}  # by payment: id, processor, evidence, when

    def follow(self, before: PaymentIntent, decision: Decision) -> None:
        """Takes over what a decision means: nothing, unless money came for what stays canceled."""
        intent = decision.intent
        if intent.state != "canceled" or intent.amount_received <= before.amount_received:
            return
        case_id = identity.derived_id("case", KIND, intent.id, str(intent.version))
        self._opened.setdefault(intent.id, (case_id, intent.processor, _evidence(before, decision), intent.updated_at))

    def writes(self) -> list[Statement]:
        """The rows, in the order of what they are about."""
        if not self._opened:
            return []
        references = sorted(self._opened)
        ids, processors, evidence, times = zip(*(self._opened[name] for name in references), strict=True)
        texts = [Texts(column) for column in (ids, references, processors, evidence)]
        return [(statements.SQL["contradictions_open"], (KIND, *texts, Bigints(times)))]

    def committed(self) -> None:
        """Called after the commit."""
        for intent_id, (case_id, processor, _, _) in self._opened.items():
            log.warning("late_capture", case=case_id, intent=intent_id, processor=processor)


def _evidence(before: PaymentIntent, decision: Decision) -> str:
    intent, refund = decision.intent, decision.refund
    taken_by = decision.caused_by or decision.attempt
    return _json.encode(
        {
            "payment_intent": intent.id,
            "merchant_id": intent.merchant_id,
            "amount": intent.amount_received - before.amount_received,
            "currency": intent.currency,
            "operation": taken_by.operation_id if taken_by else None,
            "refund": refund.id if refund else None,
            "canceled_because": before.cancellation_reason,
        }
    ).decode()

"""An operator's decision about a payment that the risk rules sent to review. Pure.

An approval starts the attempt that the confirm would have started, routed by the confirm's card. A rejection cancels
the payment as fraudulent.
"""

from __future__ import annotations

from typing import Any, Final

from msgspec import structs

from dataflows.payments.domain.decision import Context, Decision, Payment
from dataflows.payments.domain.payment_intent import advance, start_charge, wrong_state
from schemas.payments.records import RiskAssessment, RiskReason
from schemas.records import Command, Rejection

_OPERATOR: Final = "operator"  # the name of a person's decision among the rules
_NO_POLICY: Final = 0


def decide_review(payment: Payment, command: Command, context: Context) -> Decision | Rejection:
    """Approves or rejects. The operator's assessment is kept beside that of the rules."""
    intent, payload = payment.intent, command.payload
    if intent.state != "requires_merchant_action":
        return wrong_state(intent, "reviewed")
    approved = payload["decision"] == "approve"
    note: Any = payload["note"]
    reviewer: Any = payload["reviewer"]
    assessment = RiskAssessment(
        intent_id=intent.id,
        attempt=intent.latest_attempt + 1,
        outcome="allow" if approved else "block",
        score=0,
        policy_version=_NO_POLICY,
        reasons=[RiskReason(_OPERATOR, 0, note or "", shadow=False)],
        decided_by=reviewer,
        created_at=context.now,
    )
    if approved:
        return structs.replace(start_charge(intent, context, command), risk=assessment)
    after = advance(intent, context, state="canceled", cancellation_reason="fraudulent")
    return Decision(intent=after, risk=assessment)

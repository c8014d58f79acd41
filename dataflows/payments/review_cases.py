"""The cases of payments that wait for an operator's review: opened and closed in the commits that decide it.

A payment is ``requires_merchant_action`` exactly while its case waits: both change in one transaction, whoever ends
the wait (an operator's approval or rejection, or the merchant's cancellation).
"""

from __future__ import annotations

from typing import Final

import msgspec
from prometheus_client import Counter

from dataflows.owner.batch import Statement
from dataflows.payments import statements
from dataflows.payments.domain import routing
from dataflows.payments.domain.decision import Decision
from schemas import identity
from schemas.payments.records import IntentState, RiskAssessment
from sinks.postgres.arrays import Bigints, Texts

KIND: Final = "risk_review"
WAITING: Final = "requires_merchant_action"
# A jump of block or review: an attack, or a rule that hits too much; see the reasons of the newest assessments.
DECISIONS: Final = Counter("millrace_risk_decisions", "Confirms assessed, by who decided", ["outcome", "by"])
_json: Final = msgspec.json.Encoder()


class ReviewCases:
    """The cases that one batch opens and closes."""

    def __init__(self) -> None:
        self._opened: list[tuple[str, str, str, int]] = []  # id, payment, evidence, when
        self._closed: list[tuple[str, str, str, int]] = []  # payment, by whom, what became of it, when

    def follow(self, before: IntentState | None, decision: Decision) -> None:
        """Opens or closes the payment's review case if this decision requires it, which few do."""
        intent, assessment = decision.intent, decision.risk
        if before != WAITING and intent.state == WAITING and assessment is not None:
            case_id = identity.derived_id("case", KIND, intent.id, str(assessment.attempt))
            self._opened.append((case_id, intent.id, _evidence(decision, assessment), intent.updated_at))
        elif before == WAITING and intent.state != WAITING:
            who = intent.merchant_id if assessment is None else assessment.decided_by or ""
            self._closed.append((intent.id, who, _said(decision), intent.updated_at))

    def writes(self) -> list[Statement]:
        """The rows. A payment that began to wait and ended it in one batch is opened first."""
        found: list[Statement] = []
        if self._opened:
            ids, payments, evidence, times = zip(*self._opened, strict=True)
            found.append(
                (
                    statements.SQL["review_cases_open"],
                    (KIND, Texts(ids), Texts(payments), Texts(evidence), Bigints(times)),
                )
            )
        if self._closed:
            payments, persons, notes, times = zip(*self._closed, strict=True)
            found.append(
                (
                    statements.SQL["review_cases_close"],
                    (Texts(payments), Texts(persons), Texts(notes), Bigints(times), KIND),
                )
            )
        return found


def count(assessments: list[RiskAssessment]) -> None:
    """Called after the commit."""
    for assessment in assessments:
        DECISIONS.labels(assessment.outcome, "rules" if assessment.decided_by is None else "operator").inc()


def _evidence(decision: Decision, assessment: RiskAssessment) -> str:
    intent = decision.intent
    return _json.encode(
        {
            "merchant_id": intent.merchant_id,
            "amount": intent.amount,
            "currency": intent.currency,
            "score": assessment.score,
            "policy_version": assessment.policy_version,
            "reasons": assessment.reasons,
            "card": routing.card_of(decision.waiting) if decision.waiting else routing.UNKNOWN_CARD,
        }
    ).decode()


def _said(decision: Decision) -> str:
    if decision.risk is None:
        return "canceled by the merchant"
    word = "approved" if decision.risk.outcome == "allow" else "rejected"
    note = decision.risk.reasons[0].detail
    return f"{word}: {note}" if note else word

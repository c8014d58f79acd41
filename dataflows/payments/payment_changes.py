"""What commands of one batch changed of payments and of their parts: each is written once, however often it changed."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dataflows.payments import statements

if TYPE_CHECKING:
    from collections.abc import Mapping

    from dataflows.owner.batch import Statement
    from dataflows.payments.domain.decision import Decision, Payment
    from schemas.payments.records import Dispute, PaymentIntent, ProcessorAttempt, Refund, RiskAssessment


class PaymentChanges:
    """Those of one partition, beside the versions that were read."""

    def __init__(self, partition: int, payments: Mapping[str, Payment]) -> None:
        self._partition = partition
        self.read_versions = {key: payment.intent.version for key, payment in payments.items()}
        self.intents: dict[str, PaymentIntent] = {}
        self._amended: set[str] = set()
        self._attempts_new: dict[tuple[str, int], ProcessorAttempt] = {}
        self._attempts_changed: dict[tuple[str, int], ProcessorAttempt] = {}
        self._refunds_new: dict[str, Refund] = {}
        self._refunds_changed: dict[str, Refund] = {}
        self._disputes_new: dict[str, Dispute] = {}
        self._disputes_changed: dict[str, Dispute] = {}
        self.assessments: list[RiskAssessment] = []

    def keep(self, payment: Payment, decision: Decision) -> None:
        """What was decided of a payment, whose parts change in place."""
        intent = decision.intent
        self.intents[intent.id] = intent
        if decision.amended:
            self._amended.add(intent.id)
        for attempt in (decision.caused_by, decision.attempt):
            if attempt is not None:
                identity = (attempt.intent_id, attempt.attempt)
                is_new = attempt.attempt not in payment.attempts or identity in self._attempts_new
                (self._attempts_new if is_new else self._attempts_changed)[identity] = attempt
                payment.attempts[attempt.attempt] = attempt
        if decision.risk is not None:
            self.assessments.append(decision.risk)
        if (refund := decision.refund) is not None:
            is_new = refund.id not in payment.refunds or refund.id in self._refunds_new
            (self._refunds_new if is_new else self._refunds_changed)[refund.id] = refund
            payment.refunds[refund.id] = refund
        if (dispute := decision.dispute) is not None:
            is_new = dispute.id not in payment.disputes or dispute.id in self._disputes_new
            (self._disputes_new if is_new else self._disputes_changed)[dispute.id] = dispute
            payment.disputes[dispute.id] = dispute

    def writes(self) -> list[Statement]:
        """Intents, then attempts, then the parts. A batch without any of a kind sends nothing for it."""
        new = [i for i in self.intents.values() if i.id not in self.read_versions]
        old = [i for i in self.intents.values() if i.id in self.read_versions]
        found: list[Statement] = []
        if new:
            found.append(statements.intents_insert(new, self._partition))
        if old:
            found.append(statements.intents_update(old, [self.read_versions[i.id] for i in old]))
        amended = [i for i in old if i.id in self._amended] if self._amended else []
        amended += [i for i in new if i.next_action or i.authorized_until]  # what no insert writes
        if amended:
            found.append(statements.intents_amend(amended))
        if self._attempts_changed:  # first: a refused charge makes room for the next one in the index of live charges
            found.append(statements.attempts_update(list(self._attempts_changed.values())))
        if self._attempts_new:
            found.append(statements.attempts_insert(list(self._attempts_new.values())))
        found.extend(self._parts())
        return found

    def _parts(self) -> list[Statement]:
        found: list[Statement] = []
        if self._refunds_new:
            found.append(statements.refunds_insert(list(self._refunds_new.values())))
        if self._refunds_changed:
            found.append(statements.refunds_update(list(self._refunds_changed.values())))
        if self._disputes_new:
            found.append(statements.disputes_insert(list(self._disputes_new.values())))
        evidenced = [d for d in self._disputes_new.values() if d.evidence is not None]  # what no insert writes
        if self._disputes_changed or evidenced:
            found.append(statements.disputes_update([*self._disputes_changed.values(), *evidenced]))
        if self.assessments:
            found.append(statements.assessments_insert(self.assessments))
        return found

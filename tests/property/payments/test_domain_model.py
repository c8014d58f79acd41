"""Whole histories in memory: what the owner's code decides is what the reference model says, command by command.

The same histories as on real servers (test_owner_model, test_owner_commits), a thousand times as many.
"""

from __future__ import annotations

import copy
from collections import Counter, defaultdict

import pytest

from dataflows.owner.batch import Record
from dataflows.owner.transaction.fold import Fold, Known
from dataflows.payments.domain.policies.fees import FeeSchedule
from dataflows.payments.partition import PaymentsPartition
from dataflows.payments.policies import PolicyBook
from dataflows.payments.service import payments_service
from dataflows.payments.workspace import PaymentsWorkspace
from schemas.payments import vouched
from schemas.payments.topics import PARTITIONS
from tests.gate import examples
from tests.property.payments import end_state
from tests.property.payments.history import published, random_history
from tests.property.payments.model import Model
from tests.seeds import seeds
from tests.worlds.payments.payment_cases import CONTEXT

STEPS = 400


class NoChain:
    """A connection to a database in which no partition has a ledger yet."""

    def execute(self, *_: object) -> NoChain:
        return self

    def fetchone(self) -> None:
        return None


class Owners:
    """Every partition in memory. Identities are known everywhere at once, so the order of steps is the only order."""

    def __init__(self, policies: PolicyBook) -> None:
        known: dict[tuple[str, str], Known] = {}
        self.workspaces: dict[int, PaymentsWorkspace] = {}
        self.folds: dict[int, Fold] = {}
        for place in range(PARTITIONS):
            partition = PaymentsPartition(NoChain(), place, FeeSchedule(), "simulator", policies)  # type: ignore[arg-type]
            self.workspaces[place] = partition.begin([])
            self.folds[place] = Fold(payments_service(), place, 0, known, set(), self.workspaces[place])


@pytest.mark.parametrize("candidates", [(), ("simulator", "simulator_b", "simulator_c")], ids=["default", "failover"])
@pytest.mark.parametrize("seed", seeds(examples(8, 20)))
def test_any_history_is_decided_as_the_model_says(seed: int, candidates: tuple[str, ...]) -> None:
    history = random_history(seed, STEPS, PARTITIONS, f"pi_m{seed}x", candidates)
    owners, model, offsets = Owners(published(candidates)), Model(candidates=candidates), Counter[int]()
    for step in history.steps:
        if step.command is None:
            continue
        place = (step.partition, offsets[step.partition])
        offsets[step.partition] += 1
        fold = owners.folds[step.partition]
        fold.result.replies.clear()
        if vouched.is_vouched_for(step.command):  # every one of these was approved, as it is told
            owners.workspaces[step.partition].approved.setdefault(step.command.idempotency_key, step.command)
        record = Record(place[1], b"", copy.deepcopy(step.command))
        (reply,) = fold.run([record], CONTEXT.now + step.number).replies
        answer, replayed = model.take(place, step.command, invalid=step.invalid, misrouted=step.misrouted) or ((), None)
        assert (reply.outcome, reply.replayed) == (answer[0], replayed), (seed, step)
        end_state.check_body(reply.body, answer)
    _compare(owners, model)


def _compare(owners: Owners, model: Model) -> None:
    accounts: dict[str, list[int]] = defaultdict(lambda: [0, 0, 0])
    references: list[str] = []
    for workspace in owners.workspaces.values():
        for txn, _ in workspace.ledger.txns:
            references.append(txn.reference)
            for entry in txn.entries:
                for side, amount in enumerate((entry.debit, entry.credit, 1)):
                    accounts[entry.account_id][side] += amount
        for key, payment in workspace.payments.items():
            names = (*end_state.INTENT, "amount_pending")
            assert {name: getattr(payment.intent, name) for name in names} == model.intents[key]
            for refund in payment.refunds.values():
                assert {name: getattr(refund, name) for name in end_state.REFUND} == model.refunds[refund.id]
            for dispute in payment.disputes.values():
                assert {name: getattr(dispute, name) for name in end_state.DISPUTE} == model.disputes[dispute.id]
                assert (dispute.evidence or {}) == model.evidence[dispute.id]
    assert dict(accounts) == dict(model.accounts)
    assert len(set(references)) == len(references), "a fact posts once"

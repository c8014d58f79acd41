"""The payments of one batch in memory: commands fold into them one after another, and each is written once."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Any, Final

from msgspec import structs

from dataflows.owner.batch import Statement
from dataflows.owner.service import MISROUTED, Committed, NewEvent
from dataflows.payments import review_cases, statements
from dataflows.payments.account_workspace import AccountWorkspace
from dataflows.payments.contradictions import Contradictions
from dataflows.payments.domain import approval
from dataflows.payments.domain import commands as domain
from dataflows.payments.domain.accounts.account import AccountDecision
from dataflows.payments.domain.accounts.account_commands import OPERATIONS_OF_ACCOUNTS
from dataflows.payments.domain.decision import Context, Decision, Payment
from dataflows.payments.domain.ledger import journal
from dataflows.payments.domain.ledger.journal import JournalEntry
from dataflows.payments.domain.ledger.posting import Posting
from dataflows.payments.domain.policies.in_force import Policies
from dataflows.payments.late_captures import LateCaptures
from dataflows.payments.ledger_batch import LedgerBatch
from dataflows.payments.partition_memory import PartitionMemory
from dataflows.payments.payment_changes import PaymentChanges
from schemas import stored_answer
from schemas.payments import frozen_answers, rendering, vouched
from schemas.payments.records import LedgerTxn
from schemas.payments.topics import PARTITIONS
from schemas.records import Command, Rejection
from schemas.topics import partition_for

_CREATES: Final = frozenset({"create_payment_intent", "post_journal"}) | OPERATIONS_OF_ACCOUNTS
_REFUND_COMMANDS: Final = frozenset({"create_refund", "cancel_refund"})
_OF_DISPUTES: Final = frozenset({"record_dispute", "submit_dispute_evidence"})
#: the body of an event about no payment
_NO_PARTS: Final = dict.fromkeys(
    (
        *("payment_intent", "processor_attempt", "refund", "dispute", "caused_by", "risk", "account", "payout"),
        "payout_destination",
    )
)


class PaymentsWorkspace:
    """The payments of one batch in memory."""

    def __init__(
        self,
        memory: PartitionMemory,
        payments: dict[str, Payment],
        elsewhere: set[str],
        journals: set[str],
        approved: Iterable[Command],
        accounts: AccountWorkspace,
        frozen: frozenset[str] | None = None,
    ) -> None:
        self.memory = memory
        self._frozen = frozen  # merchants, as the transaction found them; None where it did not look
        self.elsewhere = elsewhere  # aggregates that another partition owns
        self.payments = payments
        self.changes = PaymentChanges(memory.partition, payments)
        self.reviews = review_cases.ReviewCases()
        self.contradictions = Contradictions()
        self.late_captures = LateCaptures()
        self.journals = journals  # those that exist
        self.approved = {one.idempotency_key: one for one in approved}  # repairs and outcomes, as the database has them
        self.journals_new: list[tuple[JournalEntry, str, int]] = []
        self.accounts = accounts
        self.ledger = LedgerBatch(memory)

    def decide(self, command: Command, offset: int, now: int) -> Committed | Rejection:
        """Folds one command in. Raises UnbalancedPosting before anything of it is kept."""
        self._recall(command.aggregate_key)
        if self._is_misrouted(command):
            return MISROUTED
        if command.operation == "post_journal":
            return self._journal(command, offset, now)
        if command.operation in OPERATIONS_OF_ACCOUNTS:
            return self._account(command, offset, now)
        if vouched.is_vouched_for(command) and not self._is_approved(command):
            return approval.NOT_APPROVED
        memory = self.memory
        context = Context(now=now, fees=memory.fees, processor=memory.processor, policies=self._policies())
        decision = domain.decide(self.payments.get(command.aggregate_key), command, context)
        if isinstance(decision, Rejection):
            self.contradictions.follow(command, decision, now)
            return decision
        txns = self._post(decision.postings, command, offset, now)
        self._keep(decision)
        intent = decision.intent
        result, made_by = _result(decision, command)
        return Committed(
            result=result,
            rendering=made_by,
            events=(
                NewEvent(
                    version=intent.version,
                    scope=intent.merchant_id,
                    body={
                        "payment_intent": intent,
                        "processor_attempt": decision.attempt,
                        "ledger_txns": txns,
                        "refund": decision.refund,
                        "dispute": decision.dispute,
                        "caused_by": decision.caused_by,
                        "risk": decision.risk,
                        "account": None,
                        "payout": None,
                        "payout_destination": None,
                    },
                ),
            ),
        )

    def _policies(self) -> Policies:
        """The newest ones; who is frozen by them may have been let go since."""
        current = self.memory.policies.current
        if self._frozen is None or self._frozen is current.frozen_merchants:
            return current
        return structs.replace(current, frozen_merchants=self._frozen)

    def _journal(self, command: Command, offset: int, now: int) -> Committed | Rejection:
        approved = self.approved.get(command.idempotency_key)
        entry = journal.decide_post(command, exists=command.aggregate_key in self.journals, approved=approved)
        if isinstance(entry, Rejection):
            return entry
        txns = self._post((entry.posting,), command, offset, now)
        self.journals.add(entry.id)
        self.journals_new.append((entry, command.scope, now))
        return Committed(
            result={"id": entry.id, "object": "journal_entry", "reference": entry.posting.reference},
            events=(NewEvent(version=1, scope=command.scope, body=_NO_PARTS | {"ledger_txns": txns}),),
        )

    def _account(self, command: Command, offset: int, now: int) -> Committed | Rejection:
        decision = self.accounts.decide(command, now)
        if isinstance(decision, Rejection):
            return decision
        txns = self._post(decision.postings, command, offset, now)
        self.accounts.keep(decision)
        account = decision.account
        parts = {"account": account, "payout": decision.payout, "payout_destination": decision.destination}
        return Committed(
            result=_result_of_account(decision),
            events=(
                NewEvent(
                    version=account.version,
                    scope=account.merchant_id,
                    body=_NO_PARTS | {"ledger_txns": txns, **parts},
                ),
            ),
        )

    def _is_approved(self, command: Command) -> bool:
        return approval.is_approved(command, self.approved.get(command.idempotency_key))

    def _recall(self, key: str) -> None:
        """A remembered payment becomes part of this workspace, as a copy: the batch may still fail."""
        remembered = self.memory.remembered.get(key)
        if remembered is not None and key not in self.payments:
            self.payments[key] = Payment(
                intent=remembered.intent,
                attempts=dict(remembered.attempts),
                refunds=dict(remembered.refunds),
                disputes=dict(remembered.disputes),
            )
            self.changes.read_versions[key] = remembered.intent.version

    def _is_misrouted(self, command: Command) -> bool:
        """Whether a producer of its own wrote it to a partition that does not own the aggregate."""
        if command.aggregate_key in self.payments:
            return command.aggregate_key in self.elsewhere
        if command.aggregate_key in self.accounts:
            return command.aggregate_key in self.accounts.elsewhere
        if command.operation not in _CREATES:
            return False  # there is nothing it could change
        return partition_for(command.aggregate_key, PARTITIONS) != self.memory.partition

    def _post(self, postings: Sequence[Posting], command: Command, offset: int, now: int) -> list[LedgerTxn]:
        """The postings with their places, as part of the batch. Raises UnbalancedPosting before any is."""
        txns = self.ledger.placed(postings, offset, now)
        self.ledger.txns.extend((txn, command) for txn in txns)
        self.accounts.posted(txns)
        return txns

    def _keep(self, decision: Decision) -> None:
        """The workspace's own copies change in place: a batch touches a payment several times."""
        intent = decision.intent
        payment = self.payments.get(intent.id)
        if payment is None:
            payment = self.payments[intent.id] = Payment(intent=intent, attempts={})
        self.reviews.follow(payment.intent.state, decision)
        self.late_captures.follow(payment.intent, decision)
        payment.intent = intent
        self.changes.keep(payment, decision)

    def writes(self) -> list[Statement]:
        """The rows that changed, in an order in which no two owners can wait for one another."""
        found = self.changes.writes()
        found.extend(self.reviews.writes())
        found.extend(self.contradictions.writes())
        found.extend(self.late_captures.writes())
        if self.journals_new:
            found.append(statements.journals_insert(self.journals_new, self.memory.partition))
        found.extend(self.accounts.writes())
        found.extend(self.ledger.writes())
        return found

    def committed(self) -> None:
        """The chain is one link longer, if the batch posted anything; what changed is remembered."""
        for key in self.changes.intents:
            self.memory.remember(self.payments[key])
        review_cases.count(self.changes.assessments)
        self.contradictions.committed()
        self.late_captures.committed()
        self.ledger.committed()


def _result(decision: Decision, command: Command) -> tuple[Callable[[], dict[str, Any]], int]:
    """What makes the caller's result: the refund of a refund's command, the dispute of one of its own, else the intent.

    With the frozen rendering that makes it again; refunds and disputes are few, and stored as they are told.
    """
    if decision.refund is not None and command.operation in _REFUND_COMMANDS:
        return partial(rendering.refund, decision.refund), stored_answer.WHOLE
    if decision.dispute is not None and command.operation in _OF_DISPUTES:
        return partial(rendering.dispute, decision.dispute), stored_answer.WHOLE
    return partial(rendering.payment_intent, decision.intent), frozen_answers.INTENT


def _result_of_account(decision: AccountDecision) -> dict[str, Any]:
    """The part that was made or changed, else the account."""
    if decision.payout is not None:
        return rendering.payout(decision.payout)
    if decision.destination is not None:
        return rendering.payout_destination(decision.destination)
    return rendering.merchant_account(decision.account)

"""Payments as one owned partition: loads payments and journal entries, and remembers the payments under way.

Every aggregate of a batch is read once and written once, whatever the number of commands. The ledger chain moves on
after the commit only, and so does what is remembered of payments under way: while the lease holds nobody else writes
them, every batch proves the lease in its own transaction, and the compare-and-set on the version proves it again.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import msgspec

from dataflows.domain.decision import Payment
from dataflows.domain.fees import FeeSchedule
from dataflows.owner.batch import Statement
from dataflows.payments import statements
from dataflows.payments.policies import PolicyBook
from dataflows.payments.workspace import PaymentsWorkspace
from schemas import limits
from schemas.records import Dispute, PaymentIntent, ProcessorAttempt, Refund
from sinks.postgres import arrays
from sinks.postgres.ledger_chain import GENESIS
from sinks.postgres.owner_connection import OwnerConnection

_FINISHED: Final = frozenset({"succeeded", "canceled"})
_JOURNAL: Final = "jr_"  # what the id of a journal entry begins with
_INTENT_FIELDS: Final = PaymentIntent.__struct_fields__
_ATTEMPT_FIELDS: Final = ProcessorAttempt.__struct_fields__
_METADATA: Final = _INTENT_FIELDS.index("metadata")
_refunds: Final = msgspec.json.Decoder(list[Refund])
_disputes: Final = msgspec.json.Decoder(list[Dispute])


class PaymentsPartition:
    """The payments state of one owned partition."""

    def __init__(
        self, connection: OwnerConnection, partition: int, fees: FeeSchedule, processor: str, policies: PolicyBook
    ) -> None:
        self.partition = partition
        self.fees = fees
        self.processor = processor
        self.policies = policies
        row = connection.execute(statements.SQL["chain_read"], (partition,)).fetchone()
        self.link, self.hash = row or (0, GENESIS)
        self.remembered: dict[str, Payment] = {}  # payments under way as this lease committed them, oldest first

    def remember(self, payment: Payment) -> None:
        """Called after the commit that made it so. A finished payment is seldom asked for: it is read then."""
        key = payment.intent.id
        self.remembered.pop(key, None)
        if payment.intent.state not in _FINISHED:
            self.remembered[key] = payment
            if len(self.remembered) > limits.PAYMENTS_REMEMBERED_MAX:
                del self.remembered[next(iter(self.remembered))]

    def reads(self, keys: list[str]) -> list[Statement]:
        """The intents of a batch with all their parts, without those that are remembered; and the journal entries."""
        journals = [key for key in keys if key.startswith(_JOURNAL)]
        unknown = [key for key in keys if key not in self.remembered and not key.startswith(_JOURNAL)]
        found: list[Statement] = []
        if unknown:
            ids = (arrays.text_array(unknown),)
            found += [(statements.SQL["intents_read"], ids), (statements.SQL["attempts_read"], ids)]
        if journals:
            found.append((statements.SQL["journals_read"], (arrays.text_array(journals),)))
        return found

    def begin(self, rows: Sequence[list[tuple[Any, ...]]]) -> PaymentsWorkspace:
        """A workspace over the rows of ``reads``; over nothing for a batch without commands."""
        journals = rows[-1] if len(rows) % 2 else []  # intents and attempts come as a pair
        intents, attempts = rows[:2] if len(rows) > 1 else ([], [])
        payments = {row[0]: _payment(row) for row in intents}
        for row in attempts:
            payments[row[0]].attempts[row[1]] = ProcessorAttempt(**dict(zip(_ATTEMPT_FIELDS, row, strict=True)))
        elsewhere = {row[0] for row in intents if row[-1] != self.partition}
        return PaymentsWorkspace(self, payments, elsewhere, {row[0] for row in journals})


def _payment(row: tuple[Any, ...]) -> Payment:
    """A row of ``intents_read``: the intent's fields, its refunds, its disputes, its partition."""
    *values, refunds, disputes, _ = row
    fields = dict(zip(_INTENT_FIELDS, values, strict=True))
    fields["metadata"] = msgspec.json.decode(row[_METADATA]) if row[_METADATA] != "{}" else {}
    payment = Payment(intent=PaymentIntent(**fields), attempts={})
    if refunds is not None:
        payment.refunds = {refund.id: refund for refund in _refunds.decode(refunds)}
    if disputes is not None:
        payment.disputes = {dispute.id: dispute for dispute in _disputes.decode(disputes)}
    return payment

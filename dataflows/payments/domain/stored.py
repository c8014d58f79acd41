"""Makes payments of the rows that their owner keeps; the order of columns is that of payments.sql."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Final

import msgspec

from dataflows.payments.domain.decision import Payment
from schemas.payments.records import Dispute, PaymentIntent, ProcessorAttempt, Refund

_INTENT_FIELDS: Final = PaymentIntent.__struct_fields__
_ATTEMPT_FIELDS: Final = ProcessorAttempt.__struct_fields__
_METADATA: Final = _INTENT_FIELDS.index("metadata")
_refunds: Final = msgspec.json.Decoder(list[Refund])
_disputes: Final = msgspec.json.Decoder(list[Dispute])

Rows = Sequence[tuple[Any, ...]]


def payments_of(intents: Rows, attempts: Iterable[tuple[Any, ...]]) -> dict[str, Payment]:
    """Whole payments by id, from the rows of ``intents_read`` and ``attempts_read``."""
    found = {row[0]: _payment(row) for row in intents}
    for row in attempts:
        found[row[0]].attempts[row[1]] = ProcessorAttempt(**dict(zip(_ATTEMPT_FIELDS, row, strict=True)))
    return found


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

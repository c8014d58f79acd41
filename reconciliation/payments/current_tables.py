"""Intents, accounts, payouts and destinations as projections. The live tables are the authority: never exchanged."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from reconciliation.payments.replayed_tables import SQL, PaymentsTable, as_row, compared
from schemas.payments.records import MerchantAccount, PaymentIntent, Payout, PayoutDestination

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    import psycopg

    from reconciliation.contract.compare import Row
    from reconciliation.contract.projection import Extent
    from sinks.streams.intake import Accepted


class CurrentTable(PaymentsTable):
    """The newest version of each record that events carry under ``part``; an event holds the whole of it."""

    part: str
    columns: tuple[str, ...]
    key_width = 1

    def __init__(self, snapshot: psycopg.Connection, writer: psycopg.Connection, topic: str) -> None:
        super().__init__(snapshot, writer, topic)
        self._from_zero = True

    def apply(self, events: Sequence[Accepted]) -> None:
        """Keeps the newest version of each."""
        newest: dict[str, dict[str, Any]] = {}
        for taken in events:
            body: dict[str, Any] = taken.event.body
            if record := body.get(self.part):  # most events are of other parts
                newest[record["id"]] = self._row(record, taken.partition)
        if newest:
            rows = msgspec.json.encode(list(newest.values())).decode()
            self._writer.execute(SQL[f"{self._table}_upsert"].encode(), {"rows": rows})

    def complete(self, extent: Extent, *, from_zero: bool) -> None:  # noqa: ARG002 - as every projection
        """Nothing before the start is needed."""
        self._from_zero = from_zero

    def live_rows(self, extent: Extent) -> Iterator[Row]:
        """The live rows that the replay touched."""
        partitions = list(extent.first_seqs)
        return self._stream(
            self._snapshot,
            f"{self._table}_live",
            partitions=partitions,
            first_seqs=[extent.first_seqs[p] for p in partitions],
            from_zero=self._from_zero,
        )

    def shadow_rows(self, extent: Extent) -> Iterator[Row]:  # noqa: ARG002 - the shadow holds nothing else
        """The rebuilt rows."""
        return self._stream(self._writer, f"{self._table}_shadow")

    def _row(self, record: dict[str, Any], partition: int) -> dict[str, Any]:
        raise NotImplementedError


class PaymentIntentCurrent(CurrentTable):
    """The intents."""

    name = _table = "payment_intent"
    part = "payment_intent"
    columns: tuple[str, ...] = (*compared(PaymentIntent), "partition")

    def complete(self, extent: Extent, *, from_zero: bool) -> None:
        """Nothing before the start is needed, but for what the first events did not say."""
        super().complete(extent, from_zero=from_zero)
        self._writer.execute(SQL["payment_intent_unsaid"].encode())

    def _row(self, record: dict[str, Any], partition: int) -> dict[str, Any]:
        return as_row(PaymentIntent, record) | {"partition": partition}


class MerchantAccountCurrent(CurrentTable):
    """The accounts."""

    name = _table = "merchant_account"
    part = "account"
    columns: tuple[str, ...] = (*compared(MerchantAccount), "partition")

    def _row(self, record: dict[str, Any], partition: int) -> dict[str, Any]:
        return as_row(MerchantAccount, record) | {"partition": partition}


class PayoutCurrent(CurrentTable):
    """The payouts: each is of its account's partition, and was changed at the time of the event that changed it."""

    name = _table = "payout"
    part = "payout"
    columns: tuple[str, ...] = compared(Payout)

    def _row(self, record: dict[str, Any], partition: int) -> dict[str, Any]:  # noqa: ARG002 - its account has it
        return as_row(Payout, record)


class PayoutDestinationCurrent(CurrentTable):
    """The destinations, each without its number, which no event has."""

    name = _table = "payout_destination"
    part = "payout_destination"
    columns: tuple[str, ...] = compared(PayoutDestination)

    def _row(self, record: dict[str, Any], partition: int) -> dict[str, Any]:  # noqa: ARG002 - its account has it
        return as_row(PayoutDestination, record)

"""Intents, refunds, disputes and payouts as a reader sees them: one, pages, and a bounded wait for one to settle.

They are read from the owner's tables, so what a caller wrote it can read at once. Another caller's object is a 404,
the same as one that does not exist.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Generic, TypeVar

import msgspec

from ingress import limits as ingress_limits
from ingress.commands.watch import Watch
from ingress.http.coalescer import Coalescer
from ingress.payments.filters import EVERYTHING
from schemas import errors
from schemas.payments import limits as payments_limits
from schemas.payments import records, rendering

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from ingress.http.cursors import Cursors
    from ingress.http.pages import Place
    from ingress.http.store import Store
    from ingress.payments.filters import Filters

Resource = records.PaymentIntent | records.Refund | records.Dispute | records.Payout
Record = TypeVar("Record", bound=Resource)
_metadata: Final = msgspec.json.Decoder(dict[str, str])


@dataclass(frozen=True, slots=True, kw_only=True)
class Kind(Generic[Record]):
    """One kind of resource. Its queries give the columns in the order of the record's fields."""

    name: str  # of its list: cursors are bound to it
    record: type[Record]
    render: Callable[[Record], dict[str, Any]]
    by_id: str
    of_merchant: str
    of_intent: str | None = None  # the list with a filter by payment
    of_metadata: str | None = None  # the list of those with a value of metadata
    unsettled: str | None = None  # the state that a caller may wait for the end of, and the query that tells the end
    moved_on: str | None = None


INTENTS: Final[Kind[records.PaymentIntent]] = Kind(
    name="payment_intents",
    record=records.PaymentIntent,
    render=rendering.payment_intent,
    by_id="intents_by_id",
    of_merchant="intents_of_merchant",
    of_metadata="intents_of_metadata",
    unsettled="processing",
    moved_on="intents_moved_on",
)
REFUNDS: Final[Kind[records.Refund]] = Kind(
    name="refunds",
    record=records.Refund,
    render=rendering.refund,
    by_id="refunds_by_id",
    of_merchant="refunds_of_merchant",
    of_metadata="refunds_of_metadata",
    of_intent="refunds_of_intent",
    unsettled="pending",
    moved_on="refunds_moved_on",
)
DISPUTES: Final[Kind[records.Dispute]] = Kind(
    name="disputes",
    record=records.Dispute,
    render=rendering.dispute,
    by_id="disputes_by_id",
    of_merchant="disputes_of_merchant",
    of_intent="disputes_of_intent",
)

PAYOUTS: Final[Kind[records.Payout]] = Kind(
    name="payouts",
    record=records.Payout,
    render=rendering.payout,
    by_id="payouts_by_id",
    of_merchant="payouts_of_merchant",
    of_metadata="payouts_of_metadata",
    unsettled="pending",
    moved_on="payouts_moved_on",
)


class Resources(Generic[Record]):
    """Reads resources of one kind for one process."""

    def __init__(self, store: Store, cursors: Cursors, kind: Kind[Record]) -> None:
        self.kind = kind
        self._store = store
        self._cursors = cursors
        self._reads: Coalescer[str, Record | None] = Coalescer(
            self._find_all,
            batch_max=ingress_limits.STORED_LOOKUPS_MAX,
            running_max=ingress_limits.STORED_LOOKUPS_RUNNING_MAX,
        )
        self._watch = Watch(store, kind.moved_on) if kind.moved_on else None
        self._waiting: Counter[str] = Counter()  # by merchant

    async def get(self, merchant: str, object_id: str, wait_s: float = 0) -> Record:
        """The object, as soon as it is settled or when the wait is over. NotFound unless it is the caller's.

        Who waits for too many already is answered at once.
        """
        found = await self._own(merchant, object_id)
        may_wait = wait_s > 0 and self._waiting[merchant] < payments_limits.RESOURCE_WAITS_OF_CALLER_MAX
        if self._watch is not None and may_wait and found.state == self.kind.unsettled:
            self._waiting[merchant] += 1
            try:
                await self._watch.moved_on(object_id, wait_s)
            finally:
                self._waiting -= Counter((merchant,))
            found = await self._own(merchant, object_id)
        return found

    async def page(
        self, merchant: str, limit: int, cursor: str | None, filters: Filters = EVERYTHING
    ) -> dict[str, Any]:
        """One page of the caller's own that are wanted, newest first.

        A page passes over LIST_PASSED_MAX of others at most: it may be short, or empty, with more to come. Raises
        MalformedRequest for a cursor that is not of this list and these filters.
        """
        bound = filters.bound(self.kind.name)
        before = self._cursors.read(merchant, bound, cursor, tuple[int, str]) if cursor else (filters.created.end, "")
        parameters = filters.parameters() | {
            "merchant": merchant,
            "before_at": before[0],
            "before_id": before[1],
            "passed_max": payments_limits.LIST_PASSED_MAX,
            "limit": limit + 1,
        }
        query = filters.variant(self.kind.of_merchant, self.kind.of_intent, self.kind.of_metadata)
        rows = await self._store.rows(query, parameters)
        items = [self._read(row) for row in rows if _is_wanted(row)][: limit + 1]
        place = None
        if len(items) > limit:
            place = _place(items[limit - 1])
        elif rows and _passed(rows[-1]) == payments_limits.LIST_PASSED_MAX:
            place = _place(self._read(rows[-1]))
        return {
            "data": [self.kind.render(item) for item in items[:limit]],
            "has_more": place is not None,
            "next_cursor": None if place is None else self._cursors.write(merchant, bound, place),
        }

    def drain(self) -> None:
        """Ends every long poll: each answers with the state as it is."""
        if self._watch is not None:
            self._watch.drain()

    async def _own(self, merchant: str, object_id: str) -> Record:
        found = await self._reads.ask(object_id)
        if found is None or found.merchant_id != merchant:
            raise errors.NotFound
        return found

    async def _find_all(self, ids: Sequence[str]) -> list[Record | None]:
        rows = await self._store.rows(self.kind.by_id, {"ids": list(set(ids))})
        found = {row[0]: self._read(row) for row in rows}
        return [found.get(object_id) for object_id in ids]

    def _read(self, row: tuple[Any, ...]) -> Record:
        values = dict(zip(self.kind.record.__struct_fields__, row, strict=False))  # a list says more of its rows
        if "metadata" in values:
            values["metadata"] = _metadata.decode(values["metadata"])
        record: Record = self.kind.record(**values)
        return record


@dataclass(frozen=True, slots=True)
class Collections:
    """All kinds of one process."""

    intents: Resources[records.PaymentIntent]
    refunds: Resources[records.Refund]
    disputes: Resources[records.Dispute]
    payouts: Resources[records.Payout]

    @classmethod
    def over(cls, store: Store, cursors: Cursors) -> Collections:
        """Read from this store, with cursors of this key."""
        return cls(
            Resources(store, cursors, INTENTS),
            Resources(store, cursors, REFUNDS),
            Resources(store, cursors, DISPUTES),
            Resources(store, cursors, PAYOUTS),
        )

    def drain(self) -> None:
        """Ends every long poll: each answers with the state as it is."""
        for resources in (self.intents, self.refunds, self.payouts):
            resources.drain()


def _place(item: Resource) -> Place:
    return item.created_at, item.id


def _is_wanted(row: tuple[Any, ...]) -> bool:
    return bool(row[-2])


def _passed(row: tuple[Any, ...]) -> int:
    return int(row[-1])

"""One decision that a store is asked for, and the handling of an answer that comes after its caller has gone."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from limiter.decide.store_exchange import lease_end_ns
from limiter.store import store
from limiter.store.lease_clock import lease_clock_ns

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Sequence

    from limiter.spending.buckets import Bucket
    from limiter.store.store import CounterStore


class StoreCall(NamedTuple):
    """One question: what was asked, when, and which store."""

    buckets: Sequence[Bucket]
    lease_id: bytes
    asked_ns: int
    counters: CounterStore

    async def decided(self, terms: Sequence[bytes], cost: int, identity: bytes, identity_key: bytes) -> list[int]:
        """The store's answer. Raises StoreUnavailable; a later answer is still handled."""
        try:
            return await self.counters.decide(self.buckets, terms, cost, identity, identity_key, self.lease_id)
        except store.StoreUnavailable as error:
            if error.late is not None:
                error.late.add_done_callback(self.heard_late)
            raise

    def heard_late(self, answered: asyncio.Future[Any]) -> None:
        """Spends the leases of a late answer while they last, or gives them back whole.

        Otherwise the store would charge what nobody spent.
        """
        if answered.cancelled() or answered.exception() is not None:
            return
        answer, now_ns = answered.result(), lease_clock_ns()
        if not isinstance(answer, list) or answer[0] != store.OK:
            return
        for bucket, granted, lease_us in zip(
            self.buckets, answer[5 :: store.ROW], answer[6 :: store.ROW], strict=False
        ):
            ends_ns = lease_end_ns(self.asked_ns, lease_us)
            if not granted or bucket.store is not self.counters:
                continue  # the bucket moved to another store, which does not know the lease
            if now_ns < ends_ns:
                bucket.begin_lease(self.lease_id, granted, ends_ns, self.counters.epoch)
            else:
                bucket.to_settle(self.lease_id, 0)

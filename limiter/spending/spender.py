"""Spending of a lease: one dictionary look-up, one clock, one identity, one record. Nothing here waits.

Twice: in Python, and compiled from ``_spending.c`` where a C compiler was there at set-up. Both make the same
decisions: one suite of tests runs on both. Source: reference limiter 3.
"""

from __future__ import annotations

from operator import index
from typing import TYPE_CHECKING, Any, Final

from limiter.frames.frames import COST_MAX, ENTRY, NO_IDENTITY, ROW, VERSION_MAX
from limiter.policy.keys import identity_hash
from limiter.spending.fields import IS_COMPILED
from limiter.store.lease_clock import lease_clock_ns

if TYPE_CHECKING:
    from collections.abc import Callable

    from limiter.frames.frames import Named
    from limiter.spending.buckets import Bucket
    from limiter.spending.decision import Decision
    from limiter.spending.fields import Identity, SpentIdentities
    from limiter.spending.key_state import KeyState
    from limiter.spending.ring import Ring

_NS_PER_US: Final = 1_000
_FLAGS: Final = 0xFF  # of a record's flags, those of a decision; the lease is above them
_make: Final = tuple.__new__  # of a Decision: half of the cost of calling it


class PlainSpender:
    """Spends leases that keys hold.

    An identity that the store is being asked about (``under_way``), or did not answer about (``doubtful``), is not
    decided here: it could be charged twice. ``refill_soon`` hears of a bucket that runs low, once. ``otherwise``
    decides for ``check_now`` what no single lease can: keys of several levels, repetitions, refusals.
    """

    __slots__ = (
        "_decision",
        "_doubtful",
        "_identities",
        "_keys",
        "_otherwise",
        "_refill_soon",
        "_ring",
        "_under_way",
        "_wall_offset_us",
    )

    def __init__(
        self,
        keys: dict[Named, KeyState],
        identities: SpentIdentities,
        under_way: dict[Identity, Any],
        doubtful: dict[Identity, int],
        ring: Ring,
        wall_offset_us: int,
        decision: type[Decision],
        refill_soon: Callable[[Bucket], None],
        otherwise: Callable[[KeyState, int, str | None], Decision | None],
    ) -> None:
        self._keys = keys
        self._identities = identities
        self._under_way = under_way
        self._doubtful = doubtful
        self._ring = ring
        self._wall_offset_us = wall_offset_us
        self._decision = decision
        self._refill_soon = refill_soon
        self._otherwise = otherwise

    def check_now(self, tenant: str, user: str, route: str, cost: int, request_id: str | None) -> Decision | None:
        """Decides, or gives None when the store has to be asked.

        Raises KeyReused for an identity that had another cost.
        """
        key = self._keys.get((tenant, user, route))
        if key is None:
            return None
        left = self.spend(key, cost, request_id)
        bucket = key.single
        if left < 0 or bucket is None:
            return self._otherwise(key, cost, request_id)
        fields = (True, bucket.remaining + left, bucket.reset_ms, 0, bucket.id_, bucket.version, True, False, False)
        return _make(self._decision, fields)

    def spend(self, key: KeyState, cost: int, request_id: str | None) -> int:
        """What is left of the lease that was spent, or -1 when nothing was: then ``check_now`` has to see to it."""
        bucket = key.single
        if bucket is None:
            return -1
        now = lease_clock_ns()
        left = bucket.left - index(cost)
        if left < 0 or not 0 <= cost <= COST_MAX or now >= bucket.lease_ends_ns:
            return -1
        identity: int | None = None
        if request_id is not None:
            if self._ring.identities and bucket.lease_flags > _FLAGS:
                identity = identity_hash(key.seed, request_id)
            if self._identities.cost_of(key.name, request_id) >= 0 or self._is_of_the_store(key, request_id):
                return -1
            self._identities.add(key.name, request_id, cost)
        bucket.left = left
        self._ring.put(key.row, cost, bucket.lease_flags, left, now // _NS_PER_US + self._wall_offset_us, identity)
        if left < bucket.refill_below:
            bucket.refill_below = 0
            self._refill_soon(bucket)
        return left

    def spend_entries(
        self, body: bytes, at: int, places: list[Named], known: list[KeyState | None], rows: bytearray
    ) -> int:
        """Decides entries of a frame in their order, from the one at ``at``, and writes their rows.

        Gives the number of the first one that no single lease decides, or how many there are. ``known``: the keys of
        these places that were found before; those that are found now are put there.
        """
        count = len(body) // ENTRY.size
        while at < count:
            number, cost, identity = ENTRY.unpack_from(body, at * ENTRY.size)
            key = known[number]
            if key is None:
                key = known[number] = self._keys.get(places[number])
            left = -1 if key is None else self.spend(key, cost, None if identity == NO_IDENTITY else identity.hex())
            bucket = None if key is None else key.single
            if left < 0 or bucket is None:
                break
            flags, version = bucket.lease_flags & _FLAGS, min(bucket.version, VERSION_MAX)
            ROW.pack_into(rows, at * ROW.size, flags, version, bucket.remaining + left, bucket.reset_ms, 0)
            at += 1
        return at

    def _is_of_the_store(self, key: KeyState, request_id: str) -> bool:
        identity = (key.name, request_id)
        return identity in self._under_way or identity in self._doubtful


if TYPE_CHECKING:  # the compiled class has the same methods
    Spender = PlainSpender
elif IS_COMPILED:
    from limiter.spending._spending import Spender
else:
    Spender = PlainSpender

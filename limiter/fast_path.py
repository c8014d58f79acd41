"""The decision that needs nobody: out of leases, or a refusal that still holds. One dictionary look-up, one clock.

Closures over locals, slots, plain integers, and nothing allocated that outlives the decision: in CPython this is the
difference between 300,000 and a million decisions a second. Nothing here waits or calls the store.
Source: reference limiter 3.
"""

from __future__ import annotations

from time import monotonic_ns
from typing import TYPE_CHECKING, Final, NamedTuple

from limiter import held
from limiter.decision import Decision
from limiter.identities import SHARDS
from limiter.ring import ALLOWED, APPROXIMATE, RECORD
from schemas import limits

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from limiter.buckets import Bucket, KeyState
    from limiter.decisions import Recorder
    from limiter.identities import Identities, Identity

LEASED: Final = ALLOWED | APPROXIMATE  # the flags of what a lease allowed
_COST_MAX: Final = limits.LIMIT_COST_MAX
_NS_PER_US: Final = 1_000
_SHARD: Final = SHARDS - 1


class FastPath(NamedTuple):
    """Two doors to the same decision.

    ``check_now`` decides, or gives None when the store has to be asked; raises KeyReused for an identity that had
    another cost. ``spend`` is for a caller that has the key already and wants no Decision: what is left of the lease
    that was spent, or -1 when nothing was, and ``check_now`` has to see to it.
    """

    check_now: Callable[[str, str, str, int, str | None], Decision | None]
    spend: Callable[[KeyState, int, str | None], int]


def fast_path(  # noqa: C901, PLR0915 - closures on purpose: what they share costs no look-up
    keys: dict[tuple[str, str, str], KeyState],
    identities: Identities,
    under_way: Mapping[Identity, object],
    recorder: Recorder,
    refill_soon: Callable[[Bucket], None],
) -> FastPath:
    """The fast path over these parts.

    An identity that the store is being asked about, or did not answer about, is not decided here: it could be charged
    twice. A bucket whose lease runs low is handed to ``refill_soon``, once for each lease.
    """
    key_of = keys.get
    tables, doubtful = identities.tables, identities.doubtful
    make = tuple.__new__  # of a Decision: half of the cost of calling it
    ring = recorder.ring
    pack = RECORD.pack_into
    buffer, size, begin, end = ring.buffer, RECORD.size, ring.begin, ring.end
    clock = monotonic_ns
    wall_offset_us = recorder.wall_offset_ns // _NS_PER_US

    def is_of_the_store(key: KeyState, request_id: str) -> bool:
        identity = (key.name, request_id)
        return identity in under_way or identity in doubtful

    def spend(key: KeyState, cost: int, request_id: str | None) -> int:
        bucket = key.single
        if bucket is None:
            return -1
        now = clock()
        left = bucket.left - cost
        if left < 0 or cost < 0 or now >= bucket.lease_ends_ns:
            return -1
        if request_id is not None:
            young, old = tables[hash(request_id) & _SHARD]
            if request_id in young or request_id in old:
                return -1
            if (under_way or doubtful) and is_of_the_store(key, request_id):
                return -1
            young[request_id] = key if cost == 1 else (key, cost, None)
        bucket.left = left
        if left < bucket.refill_below:
            bucket.refill_below = 0
            refill_soon(bucket)
        at = ring.at
        pack(buffer, at, key.row, cost, LEASED, left, now // _NS_PER_US + wall_offset_us)
        at += size
        if at == end:
            ring.turns += 1
            at = begin
        ring.at = at
        return left

    def check_now(tenant: str, user: str, route: str, cost: int, request_id: str | None) -> Decision | None:
        key = key_of((tenant, user, route))
        if key is None:
            return None
        left = spend(key, cost, request_id)
        if left < 0:
            return otherwise(key, cost, request_id)
        bucket = key.buckets[0]
        return make(
            Decision,
            (True, bucket.remaining + left, bucket.reset_ms, 0, bucket.id_, bucket.version, True, False, False),
        )

    def otherwise(key: KeyState, cost: int, request_id: str | None) -> Decision | None:
        """Repetitions, keys of several levels, refusals."""
        if not key.leased or not 0 <= cost <= _COST_MAX:
            return None
        decided: Decision | None = None
        if request_id is not None:
            if is_of_the_store(key, request_id):
                return None
            known = identities.find(key, request_id)
            if known is not None:
                decided = held.repeated(key, cost, known)
                recorder.record(key.name, cost, decided, identity=request_id)
                return decided
        now = clock()
        decided = held.spent_of_all(key, cost, now, refill_soon) or held.refused(key, cost, now)
        if decided is None:
            return None
        if decided.allowed and request_id is not None:
            identities.keep(key, request_id, cost, decided)
        recorder.record(key.name, cost, decided, identity=request_id)
        return decided

    return FastPath(check_now, spend)

"""What a store that lost its counters is told: what ended leases spent, as far as their windows still count it.

Rule: a lower bound of what was charged. A lease counts what its gateway reported, and leaks from its grant on, which is
before anything of it was charged: so a store that lost nothing is told nothing new, and it may be told again at any
time. Windows of a minute or less are over before anybody could tell. Source: reference limiter 2.7.
"""

from __future__ import annotations

import asyncio
import time
from itertools import groupby, islice
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import psycopg

from limiter.policy.level import unpacked_terms
from limiter.policy.shard_map import ShardsRefused, url_of
from limiter.store.shard_server import connected
from limiter.store.store import CounterStore, StoreUnavailable
from limiter.store.stored_bucket import LeasedBucket, store_keys
from schemas.limiter import limits
from sinks.postgres.sql_files import queries

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from limiter.policy.level import LeaseTerms
    from limiter.policy.shard_map import Shard

SQL: Final = queries("sinks.postgres.queries.limiter", "policies.sql")
_TOKEN_BUCKET, _FIXED_WINDOW, _CALENDAR = 0, 2, 4
_US_PER_S: Final = 1_000_000
_NS_PER_US: Final = 1_000


class Restored(NamedTuple):
    """What was told, and what the store had not known."""

    buckets: int
    missing: int


def counts_for_us(packed: bytes) -> int:
    """For so long after its end a lease may count in its bucket; 0 when it is not worth restoring."""
    if not packed:
        return 0
    t = unpacked_terms(packed)
    if t.algorithm == _TOKEN_BUCKET:
        ticks = -(-t.capacity * t.period // t.refill)
    else:
        ticks = max(t.period, t.slots) if t.algorithm == _CALENDAR else t.period
    counts = ticks * t.tick_us
    return counts if counts > limits.LIMIT_RESTORED_WINDOW_MIN_S * _US_PER_S else 0


def used_at_least(t: LeaseTerms, spends: Iterable[tuple[int, int]], now_us: int) -> int:
    """What a bucket holds now of leases, each as the time of its end and what it spent, newest first."""
    life_us = t.ttl * t.tick_us
    if t.algorithm == _TOKEN_BUCKET:
        return _debt_at_least(t, [((ended_us - life_us) // t.tick_us, spent) for ended_us, spent in spends], now_us)
    since_us = _since_us(t, now_us)
    if since_us is None:
        return 0
    # a lease ends with its window: by the middle of a whole life it is told from one that began with this window
    within_us = life_us // 2 if t.algorithm in (_FIXED_WINDOW, _CALENDAR) else life_us
    return sum(spent for ended_us, spent in spends if ended_us - within_us >= since_us)


def _since_us(t: LeaseTerms, now_us: int) -> int | None:
    """Charges from then on count; None when the newest lease was of a window of a calendar that is over."""
    if t.algorithm == _FIXED_WINDOW:
        window_us = t.period * t.tick_us
        return now_us // window_us * window_us
    if t.algorithm == _CALENDAR:  # two windows: where the first one begins, its length, that of the second one
        begin, within = t.refill * t.tick_us, now_us // t.tick_us - t.refill
        if not 0 <= within < t.period + t.slots:
            return None
        return begin if within < t.period else begin + t.period * t.tick_us
    return now_us - t.period * t.tick_us


def _debt_at_least(t: LeaseTerms, spends: Iterable[tuple[int, int]], now_us: int) -> int:
    """A leak that stops at nothing, without a state: the most that any of its busy times can have left."""
    now, charged, debt = now_us // t.tick_us, 0, 0
    for at, spent in spends:
        charged += spent * t.period
        debt = max(debt, charged - t.refill * max(0, now - at))
    return debt // t.period


def restore(connection: psycopg.Connection[Any], shard: Shard, own_url: str, *, encrypted: bool = False) -> Restored:
    """Buckets of a shard have at least what the stream of leases knows. Raises ShardsRefused: then run it again."""
    url = url_of(shard.address, own_url, encrypted=encrypted)
    with connected(url) as server:
        ahead_us = server.clock_us() - time.time_ns() // _NS_PER_US
    try:
        return asyncio.run(_restored(connection, shard, url, ahead_us))
    except StoreUnavailable as error:
        raise ShardsRefused(f"{shard.name} did not take what is to be restored: run it again.") from error


async def _restored(connection: psycopg.Connection[Any], shard: Shard, url: str, ahead_us: int) -> Restored:
    store = CounterStore(url, timeout_s=limits.LIMIT_SHARD_CALL_TIMEOUT_S, shard=shard)
    buckets = missing = 0
    try:
        await store.load()
        for chunk in _chunks(connection, shard.name):
            now_us = time.time_ns() // _NS_PER_US + ahead_us  # by the store's clock
            told = [
                store.restore(bucket, used, now_us)
                for bucket, spends in chunk
                if (used := used_at_least(unpacked_terms(bucket.plain_terms), spends, now_us))
            ]
            answers = await asyncio.gather(*told)
            buckets += len(answers)
            missing += sum(added for _, added in answers)
    finally:
        await store.close()
    return Restored(buckets, missing)


_Bucket = tuple[LeasedBucket, list[tuple[int, int]]]


def _chunks(connection: psycopg.Connection[Any], shard: str) -> Iterator[list[_Bucket]]:
    """Buckets with what leases spent of them; the newest lease knows the terms in force."""
    with connection.transaction(), connection.cursor("restorable") as cursor:
        cursor.itersize = limits.LIMIT_RESTORED_ROWS
        cursor.execute(SQL["shard_restorable"].encode(), (shard,))
        groups = groupby(cursor, key=lambda row: row[0])
        found = (_bucket(key_hash, [*rows]) for key_hash, rows in groups)
        while chunk := [*islice(found, limits.LIMIT_RESTORED_AT_ONCE)]:
            yield chunk


def _bucket(key_hash: str, rows: list[Any]) -> _Bucket:
    terms = bytes(rows[0][1])
    return LeasedBucket(key_hash, store_keys(key_hash), terms), [(ended_us, spent) for _, _, ended_us, spent in rows]

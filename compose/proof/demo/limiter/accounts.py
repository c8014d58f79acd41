"""The counter store's own books beside what clients were admitted: nothing charged twice, no lease unaccounted."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

import redis

from compose.proof.demo.limiter.gateways import STORE_TIMEOUT_S, lease_owner
from limiter.spending.buckets import Bucket
from limiter.store.store import CounterStore
from schemas.limiter.exact_counter import SLIDING, TOKEN_BUCKET

if TYPE_CHECKING:
    from collections.abc import Iterable

    from compose.proof.demo.limiter.judge import Counter, CounterName


@dataclass(frozen=True, slots=True)
class Booked:
    """What the store says of one counter."""

    used: int
    reserved: int
    begun_us: int  # it was read between these two
    ended_us: int


@dataclass(frozen=True, slots=True)
class Accounts:
    """``lease_gap`` and ``exact_gap`` are 0 when the books agree."""

    leased_admitted: int
    leased_used: int
    leased_reserved: int  # of the killed gateway: charged whole when their time is over
    killed_held: int
    unanswered: int
    lease_gap: int
    exact_gap: int


def held_by(store_url: str, number: int, counters: Iterable[Counter]) -> dict[CounterName, int]:
    """What a gateway's leases hold now, by counter."""
    owner = f"{lease_owner(number)}.".encode()
    found: dict[CounterName, int] = {}
    with redis.Redis.from_url(store_url) as client:
        for counter in counters:
            leases: dict[bytes, bytes] = client.hgetall(Bucket(counter.level, counter.values).keys[1])
            held = sum(int(lease.split(b":")[0]) for name, lease in leases.items() if name.startswith(owner))
            if held:
                found[counter.level.id_, counter.values] = held
    return found


async def booked(store_url: str, counters: Iterable[Counter]) -> dict[CounterName, Booked]:
    """What the store has of each counter. Raises StoreUnavailable."""
    store = CounterStore(store_url, timeout_s=STORE_TIMEOUT_S)
    found = {}
    try:
        for counter in counters:
            begun = time.time_ns() // 1_000
            counted = await store.peek(Bucket(counter.level, counter.values))
            found[counter.level.id_, counter.values] = Booked(
                counted.used, counted.reserved, begun, time.time_ns() // 1_000
            )
    finally:
        await store.close()
    return found


def balance(
    counters: dict[CounterName, Counter], books: dict[CounterName, Booked], killed: dict[CounterName, int]
) -> Accounts:
    """Compares, counter by counter.

    Leased windows are added up exactly: what clients were admitted is used or still reserved, and what is used or
    reserved beyond it is no more than the killed gateway held or left unanswered. Exact counters must hold what the
    oracle says. A leased token bucket has leaked when it is read: its admissions are judged one by one instead.
    """
    lease_gap = exact_gap = admitted = used = reserved = unanswered = 0
    for name, counter in counters.items():
        book = books[name]
        if not counter.is_leased:
            exact_gap += _outside(counter, book)
        elif counter.level.terms.algorithm not in (TOKEN_BUCKET, SLIDING):
            admitted += counter.admitted
            used += book.used
            reserved += book.reserved
            unanswered += counter.unanswered
            beyond = book.used + book.reserved - counter.admitted
            lease_gap += max(-beyond, beyond - killed.get(name, 0) - counter.unanswered, 0)
    return Accounts(admitted, used, reserved, sum(killed.values()), unanswered, lease_gap, exact_gap)


def _outside(counter: Counter, book: Booked) -> int:
    """How far the store's figure lies outside of what the oracle allows."""
    capacity = counter.level.terms.capacity
    least_used = capacity - counter.bracket.most.available(book.ended_us)
    most_used = capacity - counter.bracket.least.available(book.begun_us)
    return max(least_used - book.used, book.used - most_used, 0)

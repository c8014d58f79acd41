"""Permits that the store may hold for requests that were refused, or have ended, without its answer.

Nobody would release them: the caller was told that it holds none, or has gone.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from limiter.decide.refunds import holds_permits
from limiter.policy import keys
from limiter.store.store import StoreUnavailable
from schemas.limiter import limits

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from limiter.spending.key_state import KeyState
    from limiter.store.store import CounterStore


class _Refused(NamedTuple):
    key: KeyState
    identity: bytes
    lease_id: bytes
    cost: int
    is_again: bool  # an earlier try was allowed, and its other charges are used


class UnsurePermits:
    """Gives them back when the store answers again, unless the same identity has asked anew, here or elsewhere."""

    def __init__(self) -> None:
        self._refused: dict[tuple[str, bytes], _Refused] = {}
        self._leaving: tuple[str, bytes] | None = None

    def refused(self, key: KeyState, identity: bytes, lease_id: bytes, cost: int, *, is_again: bool = False) -> None:
        """Notes a request that the failure mode refused because the store did not answer: it must hold no permits.

        ``is_again``: an earlier try of the request was allowed and stays charged.
        """
        if not all(bucket.level.policy.failure_mode == "open" for bucket in key.real):
            self.left(key, identity, lease_id, cost, is_again=is_again)

    def left(self, key: KeyState, identity: bytes, lease_id: bytes, cost: int, *, is_again: bool) -> None:
        """Notes a request whose caller has gone: whatever the store decides, it must hold no permits."""
        if not holds_permits(key):
            return
        if len(self._refused) >= limits.LIMIT_UNSURE_MAX:
            del self._refused[next(iter(self._refused))]
        self._refused[key.name, identity or lease_id] = _Refused(key, identity, lease_id, cost, is_again)

    def asked_again(self, key: KeyState, identity: bytes) -> None:
        """Drops the note: the request's new answer counts."""
        if self._refused:
            self._refused.pop((key.name, identity), None)
        if self._leaving == (key.name, identity):
            self._leaving = None

    async def take_back(self, store_of: Callable[[KeyState], Awaitable[CounterStore]]) -> None:
        """Tells the store of all of them. Keeps what it could not tell, and raises StoreUnavailable."""
        while self._refused:
            place = self._leaving = next(iter(self._refused))
            found = self._refused.pop(place)
            try:
                await _told(found, await store_of(found.key))
            except StoreUnavailable:
                if self._leaving == place:
                    self._refused[place] = found
                raise


async def _told(found: _Refused, counters: CounterStore) -> None:
    """The store gives back what this gateway was told; not what another one was, where the request may run."""
    place = keys.identity_key(found.key.name, found.identity) if found.identity else b""
    if found.identity and not found.is_again:  # its other levels were charged, too
        await counters.refund(found.key.buckets, found.identity, place, found.lease_id)
        return
    permits = [bucket for bucket in found.key.buckets if bucket.level.policy.algorithm == "concurrency"]
    await counters.release(permits, found.identity or found.lease_id, place, found.cost, found.lease_id)

"""The counter store: one function call for one decision, within a bound of time, never sent twice by itself.

A client that repeats a command after a lost reply would charge twice: repetition is the caller's, under its identity.
"""

from __future__ import annotations

import asyncio
import random
import struct
import time
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from limiter.policy import keys as names
from limiter.policy.shard_map import ONE_SHARD
from limiter.store.store_clock import ahead_s
from limiter.store.store_script import EVICTION, AsFunctions, AsScript, is_forbidden, is_not_offered, is_there, unfit
from schemas.errors import Unavailable
from schemas.limiter import limits
from sinks.redis.line import AnswerLate, Line, LineLost, Reply, opened

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from limiter.policy.shard_map import Shard
    from limiter.store.stored_bucket import StoredBucket

EPOCH_KEY: Final = b"rl:epoch"
OK, DENIED, DUPLICATE, CONFLICT, STALE_EPOCH, WRONG = 1, 0, 2, 3, 4, 5
ROW: Final = 6  # numbers of one bucket in an answer
_HEAD: Final = struct.Struct("<6d")
_US_PER_MS: Final = 1_000


class StoreUnavailable(Unavailable):
    """The counter store did not answer in time: whether it charged is not known."""

    #: what it answers in the end, where it may still: cancelled, or StoreUnavailable, when nothing
    late: asyncio.Future[Any] | None = None


class StoreNotAsked(StoreUnavailable):
    """It failed a moment ago and is left alone: it has charged nothing."""


class Counted(NamedTuple):
    """What a bucket holds at the store."""

    used: int
    reserved: int  # by leases
    remaining: int
    reset_ms: int
    version: int  # of the policy that it was counted under

    def rendered(self) -> dict[str, int]:
        """The numbers as people are shown them."""
        return {
            "used": self.used,
            "reserved": self.reserved,
            "remaining": self.remaining,
            "reset_ms": self.reset_ms,
        }


def _nothing() -> None:
    """Nobody wants to know."""


class CounterStore:
    """One shard at one epoch, over one connection: what is asked in one turn of the loop travels together.

    It is also the seam of a limiter that has one shard only (``limiter/store/sharded_store.py`` for more).
    """

    def __init__(
        self, url: str, *, timeout_s: float = limits.LIMIT_STORE_TIMEOUT_S, shard: Shard = ONE_SHARD.shards[0]
    ) -> None:
        self.url = url
        self.shard = shard
        self._way: type[AsFunctions | AsScript] = AsFunctions
        self._line: Line | None = None
        self._connecting = asyncio.Lock()
        self._loading = asyncio.Lock()
        self._timeout_s = timeout_s
        self.epoch = shard.epoch
        self._shut_until = 0.0
        #: it failed and has not answered since: one call at a time finds out whether it is back
        self._failing = False
        self._probing = False
        #: until then no lease is granted: a new primary has to learn of those that are held
        self.learning_until_ns = 0
        #: a newer map gave its place to another one: it is not asked any more
        self.replaced = False
        #: the epoch that the store said last when it refused ours; None when it answered since
        self.fenced_by: int | None = None
        self.refused_calls = 0
        self.on_stale: Callable[[], None] = _nothing
        #: why the server that was connected to last must not be trusted with counters
        self.unfit: str | None = None
        #: by how much our clock is ahead of the store's, when it was looked at last; None before that
        self.clock_ahead_s: float | None = None

    def now_s(self) -> float:
        """The time by the store's clock, as far as it was looked at; ours before that."""
        return time.time() - (self.clock_ahead_s or 0.0)

    async def load(self) -> None:
        """The functions are there afterwards, or the script where there can be none. Raises StoreUnavailable.

        Who may load neither calls what the supervisor and operators load.
        """
        answer = await self._sent(self._way.loading)
        if self._way is AsFunctions and is_not_offered(answer):
            self._way = AsScript
            answer = await self._sent(self._way.loading)
            if is_forbidden(answer):
                self._way = AsFunctions
                return
        if not is_there(answer):
            self._way = AsFunctions
            raise self._failed(str(answer))

    async def close(self) -> None:
        """Closes the connection."""
        if self._line is not None:
            self._line.lose("closed")

    def replace(self) -> None:
        """Asks nothing any more; whoever waits for an answer is told that there is none."""
        self.replaced = True
        if self._line is not None:
            self._line.lose("the shard map changed")

    def store_of(self, buckets: Sequence[StoredBucket]) -> CounterStore:  # noqa: ARG002 - as the sharded store
        """The store that holds these buckets: this one."""
        return self

    def former_of(self, bucket: StoredBucket) -> tuple[CounterStore, ...]:  # noqa: ARG002 - as the sharded store
        """Where else its counter may be: nowhere."""
        return ()

    async def decide(
        self,
        buckets: Sequence[StoredBucket],
        terms: Sequence[bytes],
        cost: int,
        identity: bytes,
        identity_key: bytes,
        lease_id: bytes,
    ) -> list[int]:
        """The script's answer over all buckets: charged all, or none. Raises StoreUnavailable."""
        keys = [EPOCH_KEY, identity_key]
        for bucket in buckets:
            keys.extend(bucket.keys)
        head = _HEAD.pack(self.epoch, 0, cost, limits.LIMIT_IDENTITY_MS, 0, len(buckets))
        return await self._call(b"rl1_decide", keys, (head, lease_id, identity, *terms))

    async def settle(self, bucket: StoredBucket, lease_id: bytes, spent: int) -> list[int]:
        """A lease ended with so much spent; again, it does nothing. Raises StoreUnavailable."""
        return await self._of_one(b"rl1_settle", bucket, lease_id, spent)

    async def register(self, bucket: StoredBucket, lease_id: bytes, granted: int) -> list[int]:
        """A lease that the store may not know is reserved, once, as far as there is room. Raises StoreUnavailable."""
        return await self._of_one(b"rl1_register", bucket, lease_id, granted)

    async def restore(self, bucket: StoredBucket, used: int, now_us: int = 0) -> list[int]:
        """At least so much is charged afterwards; again, it does nothing. Raises StoreUnavailable.

        ``now_us``: when that was so, by the store's clock; 0 for now.
        """
        return await self._of_one(b"rl1_restore", bucket, b"", used, now_us=now_us)

    async def owe(self, bucket: StoredBucket, mark: str, lost: int) -> list[int]:
        """What may have been lost is charged once for each mark. Raises StoreUnavailable."""
        key = names.identity_key(bucket.keys[0].decode(), mark.encode())
        kept_ms = 2 * limits.LIMIT_FAILOVER_DEBT_S * 1_000
        return await self._of_one(b"rl1_owe", bucket, b"", lost, key, kept_ms)

    async def credit(self, bucket: StoredBucket, lease_id: bytes, mark: str, cost: int, at_us: int) -> int:
        """Takes back what a settled lease was charged for an identity at that time, once for each mark.

        Gives what there was to take back, or -1 when the lease is not settled. Raises StoreUnavailable.
        """
        key = names.identity_key(bucket.keys[0].decode(), mark.encode())
        kept_ms = limits.LIMIT_REFUND_MARK_MS
        return (await self._of_one(b"rl1_credit", bucket, lease_id, cost, key, kept_ms, caller_us=at_us))[1]

    async def refund(
        self, buckets: Sequence[StoredBucket], identity: bytes, identity_key: bytes, lease_id: bytes = b""
    ) -> int:
        """Gives back, once, what an identity took of these buckets, and says how much: again, it says the same.

        ``lease_id``: of the gateway that refused the request: nothing while another one was told that it may run.
        Raises StoreUnavailable.
        """
        return await self._of_identity(b"rl1_refund", buckets, identity, identity_key, 0, lease_id)

    async def release(
        self,
        buckets: Sequence[StoredBucket],
        identity: bytes,
        identity_key: bytes,
        permits: int,
        lease_id: bytes = b"",
    ) -> int:
        """Frees the permits of an identity; how many it still held. ``lease_id``: as for ``refund``.

        Raises StoreUnavailable.
        """
        return await self._of_identity(b"rl1_release", buckets, identity, identity_key, permits, lease_id)

    async def _of_identity(
        self,
        function: bytes,
        buckets: Sequence[StoredBucket],
        identity: bytes,
        identity_key: bytes,
        cost: int,
        lease_id: bytes,
    ) -> int:
        keys = [EPOCH_KEY, identity_key]
        for bucket in buckets:
            keys.extend(bucket.keys)
        head = _HEAD.pack(self.epoch, 0, cost, 0, 0, len(buckets))
        code, number, *_ = await self._call(
            function, keys, (head, lease_id, identity, *(bucket.plain_terms for bucket in buckets))
        )
        if code == STALE_EPOCH:
            raise StoreUnavailable(cause=f"its epoch is {number}, not {self.epoch}")
        return 0 if code == WRONG else number

    async def peek(self, bucket: StoredBucket) -> Counted:
        """What the bucket holds, without touching it. Raises StoreUnavailable."""
        _, used, reserved, available, reset_us, version = await self._of_one(b"rl1_peek", bucket, b"", 0)
        return Counted(used, reserved, available, -(-reset_us // _US_PER_MS), version)

    async def _of_one(
        self,
        function: bytes,
        bucket: StoredBucket,
        lease_id: bytes,
        cost: int,
        identity_key: bytes = b"",
        kept_ms: int = 0,
        now_us: int = 0,
        caller_us: int = 0,
    ) -> list[int]:
        """A store of another epoch is not the one that was meant: it has changed nothing, and is asked again later."""
        head = _HEAD.pack(self.epoch, now_us, cost, kept_ms, caller_us, 1)
        keys = [EPOCH_KEY, identity_key, *bucket.keys]
        answer = await self._call(function, keys, (head, lease_id, b"", bucket.plain_terms))
        if answer[0] == STALE_EPOCH:
            raise StoreUnavailable(cause=f"its epoch is {answer[1]}, not {self.epoch}")
        if answer[0] == WRONG:
            raise StoreUnavailable(cause="it is in no window that is known here: see the snapshot, and the clocks")
        return answer

    async def _call(self, function: bytes, keys: Sequence[bytes], arguments: Sequence[bytes]) -> list[int]:
        """Waits at most one bound for a connection, and one for the answer."""
        way = self._way
        answer = await self._sent(way.call(function, keys, arguments))
        if way.is_missing(answer):  # a server that lost its functions has charged nothing
            answer = await self._after_loading(function, keys, arguments)
        if not isinstance(answer, list):
            # Its memory is full, it became a replica, or one key holds what is not ours: it has charged nothing. It
            # answers at once, so it is not left alone: the other keys may be well.
            raise StoreUnavailable(cause=str(answer))
        if answer[0] == STALE_EPOCH:
            self.fenced_by = answer[1]
            self.refused_calls += 1
            self.on_stale()
        elif self.fenced_by is not None:
            self.fenced_by = None
        return answer

    async def _after_loading(self, function: bytes, keys: Sequence[bytes], arguments: Sequence[bytes]) -> Reply:
        async with self._loading:
            answer = await self._sent(self._way.call(function, keys, arguments))  # another call may have loaded them
            if self._way.is_missing(answer):
                if is_not_offered(answer):
                    self._way = AsScript
                await self.load()
                answer = await self._sent(self._way.call(function, keys, arguments))
            return answer

    async def _sent(self, words: bytes) -> Reply:
        """The server's answer. Raises StoreUnavailable."""
        self._check_open()
        finds_out = self._probing = self._failing
        try:
            line = self._line
            if line is None or line.lost:
                line = await self._connected()
            answer = await line.send(words)
        except AnswerLate as error:  # others may be well
            unavailable = StoreUnavailable(cause=str(error))
            unavailable.late = error.answer
            raise unavailable from error
        except (OSError, LineLost) as error:  # TimeoutError is an OSError
            raise self._failed(str(error) or type(error).__name__) from error
        finally:
            if finds_out:
                self._probing = False
        self._failing = False
        return answer

    async def _connected(self) -> Line:
        async with self._connecting:
            if self._line is None or self._line.lost:
                self._check_still_open()
                self._line = line = await opened(self.url, max(self._timeout_s, limits.LIMIT_STORE_SILENCE_S))
                try:
                    evicts, self.clock_ahead_s = await asyncio.gather(line.send(EVICTION), ahead_s(line))
                except AnswerLate:
                    line.lose("it did not say in time whether it may count")
                    raise LineLost("it did not say in time whether it may count") from None
                self.unfit = unfit(evicts)
                line.timeout_s = self._timeout_s
            return self._line

    async def compare_clocks(self) -> None:
        """Looks at the store's clock, where there is a connection: every connection has begun with that."""
        if self._line is not None and not self._line.lost:
            with suppress(LineLost):  # the next call finds out
                self.clock_ahead_s = await ahead_s(self._line)

    def _check_open(self) -> None:
        self._check_still_open()
        if self._failing and self._probing:
            raise StoreNotAsked(cause="another call finds out whether it is back")

    def _check_still_open(self) -> None:
        """Also for a call that waited for a connection: the store may have failed meanwhile."""
        if self.replaced:
            raise StoreNotAsked(cause="the shard map changed")
        if time.monotonic() < self._shut_until:
            raise StoreNotAsked(cause="left alone after a failure")

    def _failed(self, cause: str) -> StoreUnavailable:
        self._failing = True
        # Gateways that lost one store at once do not all come back at once.
        self._shut_until = time.monotonic() + limits.LIMIT_STORE_RETRY_S * random.uniform(0.5, 1.0)
        return StoreUnavailable(cause=cause)

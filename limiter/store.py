"""The counter store: one function call for one decision, within a bound of time, never sent twice by itself.

A client that repeats a command after a lost reply would charge twice: repetition is the caller's, under its identity.
"""

from __future__ import annotations

import asyncio
import struct
import time
from importlib import resources
from typing import TYPE_CHECKING, Any, Final

from redis.asyncio import ConnectionPool, Redis
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff
from redis.exceptions import RedisError, ResponseError

from schemas import limits
from schemas.errors import Unavailable

if TYPE_CHECKING:
    from collections.abc import Sequence

    from limiter.buckets import Bucket

EPOCH_KEY: Final = b"rl:epoch"
OK, DENIED, DUPLICATE, CONFLICT, STALE_EPOCH, WRONG = 1, 0, 2, 3, 4, 5
ROW: Final = 6  # numbers of one bucket in an answer
_HEAD: Final = struct.Struct("<6d")
_NO_FUNCTION: Final = "Function not found"


class StoreUnavailable(Unavailable):
    """The counter store did not answer in time: whether it charged is not known."""


class CounterStore:
    """One shard. Calls share a bounded pool of connections."""

    def __init__(self, url: str, *, timeout_s: float = limits.LIMIT_STORE_TIMEOUT_S, connections_max: int = 32) -> None:
        pool = ConnectionPool.from_url(
            url,
            max_connections=connections_max,
            socket_timeout=timeout_s,
            socket_connect_timeout=timeout_s,
            retry=Retry(NoBackoff(), 0),
        )
        self._redis = Redis(connection_pool=pool)
        self._library = (resources.files("sinks.redis") / "scripts" / "rl1.lua").read_text()
        self._places = asyncio.Semaphore(connections_max)
        self._timeout_s = timeout_s
        self.epoch = 0
        self._shut_until = 0.0

    async def load(self) -> None:
        """The functions are there afterwards. Raises StoreUnavailable."""
        try:
            await self._redis.function_load(self._library, replace=True)
        except RedisError as error:
            raise StoreUnavailable(cause=type(error).__name__) from error

    async def close(self) -> None:
        """Closes every connection."""
        await self._redis.aclose(close_connection_pool=True)

    async def decide(
        self,
        buckets: Sequence[Bucket],
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

    async def settle(self, bucket: Bucket, lease_id: bytes, spent: int) -> list[int]:
        """A lease ended with so much spent; again, it does nothing. Raises StoreUnavailable."""
        head = _HEAD.pack(self.epoch, 0, spent, 0, 0, 1)
        return await self._call(
            b"rl1_settle", [EPOCH_KEY, b"", *bucket.keys], (head, lease_id, b"", bucket.plain_terms)
        )

    async def peek(self, bucket: Bucket) -> list[int]:
        """[code, used, reserved, available, reset_us, version] without touching it. Raises StoreUnavailable."""
        head = _HEAD.pack(self.epoch, 0, 0, 0, 0, 1)
        return await self._call(b"rl1_peek", [EPOCH_KEY, b"", *bucket.keys], (head, b"", b"", bucket.plain_terms))

    async def _call(self, function: bytes, keys: list[bytes], arguments: tuple[bytes, ...]) -> list[int]:
        """Waits at most one bound for a connection, and one for the answer. A busy gateway is no store that failed."""
        self._check_open()
        try:
            async with asyncio.timeout(self._timeout_s):
                await self._places.acquire()
        except TimeoutError as error:
            raise StoreUnavailable(cause="no connection is free") from error
        try:
            self._check_open()  # it may have failed meanwhile
            return await self._answered(function, keys, arguments)
        finally:
            self._places.release()

    def _check_open(self) -> None:
        if time.monotonic() < self._shut_until:
            raise StoreUnavailable(cause="left alone after a failure")

    async def _answered(self, function: bytes, keys: list[bytes], arguments: tuple[bytes, ...]) -> list[int]:
        try:
            try:
                answer: Any = await self._redis.fcall(function, len(keys), *keys, *arguments)
            except ResponseError as error:
                if _NO_FUNCTION not in str(error):
                    raise
                await self.load()  # a server that lost its functions has charged nothing
                answer = await self._redis.fcall(function, len(keys), *keys, *arguments)
        except (RedisError, OSError) as error:  # errors that it answers too: memory is full, it became a replica
            self._shut_until = time.monotonic() + limits.LIMIT_STORE_RETRY_S
            raise StoreUnavailable(cause=type(error).__name__) from error
        found: list[int] = answer
        return found

"""Probes of Valkey: counters and identities of one tenant are no other's, and no key holds a canary's payload.

Counters are asked for as gateways and the ingress do, by the same names and the same functions, under a policy that is
published nowhere and for a user that is new each time: whoever else counts, these counters are this round's alone.
"""

from __future__ import annotations

import asyncio
import secrets
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urlsplit, urlunsplit

import redis

from compose import limits
from compose.isolation.found import Found
from limiter.policy import keys
from limiter.policy.level import level_of
from limiter.store import store as answers
from limiter.store.store import CounterStore
from limiter.store.stored_bucket import bucket_of
from schemas import errors
from schemas.limiter.limit_policy import ANY, LimitPolicy, Scope
from sinks.redis.connection import connect_blocking

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from compose.isolation.canaries import Canary

POLICY: Final = LimitPolicy(
    policy_id="isolation_canary",
    version=1,
    scope=Scope(ANY, ANY, ANY),
    per=("tenant", "user"),
    algorithm="fixed_window",
    capacity=1_000,
    refill_period_ms=1_000,
    window_ms=60_000,  # and nothing of it stays for longer
    slots=1,
    strict=False,
    consistency="exact",
    failure_mode="closed",
    shadow=False,
    audit="aggregate",
)
_ROUTE: Final = "/isolation"
_IDENTITY_BYTES: Final = 16
_CHARGED: Final = (3, 5)  # the one who asks, and the other
_REPEATED: Final = (answers.DUPLICATE, answers.CONFLICT)
_TIMEOUT_S: Final = float(limits.ISOLATION_ANSWER_S)
_MS: Final = 1_000


class CounterProbes:
    """Those of one monitor: it knows which keys the round before has looked at."""

    def __init__(self, url: str, policy: LimitPolicy = POLICY) -> None:
        self._url = url
        self._level = level_of(policy, {})
        self._client: redis.Redis | None = None
        self._cursor = 0

    def probes(self, asks: Canary, other: Canary) -> Iterator[Found]:
        """All of them. Raises Unavailable."""
        yield from asyncio.run(self._counted(asks, other))
        try:
            yield self._sampled([asks, other])
            yield from self._without_password()
        except (redis.RedisError, OSError) as error:
            self.close()
            raise errors.Unavailable(f"Valkey does not answer: {type(error).__name__}") from error

    def close(self) -> None:
        """Disconnects, until the next round."""
        client, self._client = self._client, None
        if client is not None:
            client.close()

    async def _counted(self, *canaries: Canary) -> list[Found]:
        """Both are charged under one identity, each something else, and then both are looked at."""
        store = CounterStore(self._url, timeout_s=_TIMEOUT_S)
        user, identity = secrets.token_hex(_IDENTITY_BYTES), secrets.token_bytes(_IDENTITY_BYTES)
        parts = [keys.key_parts(f"tenant:{canary.tenant_id}", user, _ROUTE) for canary in canaries]
        buckets = [bucket_of(self._level, self._level.counted_by(each)) for each in parts]
        try:
            codes = []
            for each, bucket, cost in zip(parts, buckets, _CHARGED, strict=True):
                remembered = keys.identity_key(keys.limit_key(each), identity)
                codes.append(await _charged(store, bucket, cost, identity, remembered))
            used = [(await store.peek(bucket)).used for bucket in buckets]
        finally:
            await store.close()
        if any(found < cost for found, cost in zip(used, _CHARGED, strict=True)) and codes[1] not in _REPEATED:
            raise errors.Unavailable("a counter of this minute ended meanwhile")
        is_more = any(found > cost for found, cost in zip(used, _CHARGED, strict=True))
        return [
            _proof("counters in Valkey", "one tenant's counter holds what another was charged", is_more),
            _proof("identities in Valkey", "one tenant's identity is taken for another's", codes[1] in _REPEATED),
        ]

    def _sampled(self, canaries: Sequence[Canary]) -> Found:
        """Some keys more, with what they hold: of tenants there are counts alone, so no payload is anywhere."""
        client = self._connected()
        self._cursor, found = client.scan(self._cursor, count=limits.ISOLATION_KEYS_SAMPLED)
        names = [name for name in found[: 2 * limits.ISOLATION_KEYS_SAMPLED] if isinstance(name, bytes)]
        held = _held(client, names)
        markers = [canary.marker.encode() for canary in canaries]
        said = any(marker in text for text in (*names, *held) for marker in markers)
        return _proof("keys in Valkey", "a canary's payload is in a key", said)

    def _without_password(self) -> Iterator[Found]:
        place = urlsplit(self._url)
        if not place.password:
            return
        bare = urlunsplit(place._replace(netloc=place.netloc.rpartition("@")[2]))
        with _client(bare) as stranger:
            try:
                stranger.ping()
            except redis.AuthenticationError:
                yield Found("Valkey without a password")
            else:
                yield Found("Valkey without a password", "it answers who has none")

    def _connected(self) -> redis.Redis:
        self._client = self._client or _client(self._url)
        return self._client


def _client(url: str) -> redis.Redis:
    return connect_blocking(url, limits.ISOLATION_ANSWER_S * _MS, "millrace-isolation", protocol=2)


def _proof(probe: str, evidence: str, is_so: bool) -> Found:
    return Found(probe, evidence if is_so else None, is_leak=is_so)


async def _charged(store: CounterStore, bucket: Any, cost: int, identity: bytes, remembered: bytes) -> int:
    """The store's word. Which epoch the map says, nobody tells us: what is counted here needs no such fence."""
    for _ in range(2):
        answer = await store.decide([bucket], [bucket.plain_terms], cost, identity, remembered, b"")
        if answer[0] != answers.STALE_EPOCH:
            return answer[0]
        store.epoch = answer[1]
    raise errors.Unavailable("the epoch of Valkey changes")


def _held(client: redis.Redis, names: Sequence[bytes]) -> list[bytes]:
    """The first of what each key holds, whatever its type: two round trips."""
    pipe = client.pipeline(transaction=False)
    for name in names:
        pipe.type(name)
    kinds = pipe.execute()
    last = limits.ISOLATION_VALUES_SAMPLED - 1
    for name, kind in zip(names, kinds, strict=True):
        match kind:
            case b"string":
                pipe.getrange(name, 0, limits.ISOLATION_VALUE_BYTES - 1)
            case b"hash":
                pipe.hscan(name, count=limits.ISOLATION_VALUES_SAMPLED)
            case b"list":
                pipe.lrange(name, 0, last)
            case b"set":
                pipe.srandmember(name, limits.ISOLATION_VALUES_SAMPLED)
            case b"zset":
                pipe.zrange(name, 0, last)
    return [text for found in pipe.execute(raise_on_error=False) for text in _texts(found)]


def _texts(found: Any) -> Iterator[bytes]:
    match found:
        case bytes():
            yield found
        case dict():
            for name, value in found.items():
                yield from (name, value)
        case list() | tuple() | set():
            for one in found:
                yield from _texts(one)

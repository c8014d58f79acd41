"""A bucket as the counter store finds it: its keys there, and the terms of its policy."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, Protocol

import xxhash

if TYPE_CHECKING:
    from limiter.policy.level import Level


class StoredBucket(Protocol):
    """What a call about a bucket tells its store."""

    @property
    def keys(self) -> tuple[bytes, bytes]:
        """Of the bucket at the store, and of its leases."""
        ...

    @property
    def plain_terms(self) -> bytes:
        """The terms of its policy, without a lease."""
        ...


class PlacedBucket(StoredBucket, Protocol):
    """A bucket whose shard follows from its tenant."""

    @property
    def id_(self) -> str:
        """Of its policy."""
        ...

    @property
    def tenant(self) -> str:
        """Empty when it counts over tenants."""
        ...


class LeasedBucket(NamedTuple):
    """A bucket as a report of a lease names it: enough to settle the lease."""

    key_hash: str
    keys: tuple[bytes, bytes]
    plain_terms: bytes


class LevelBucket(NamedTuple):
    """The bucket of a level: enough to look at what it holds."""

    id_: str
    tenant: str
    keys: tuple[bytes, bytes]
    plain_terms: bytes


def bucket_of(level: Level, values: str) -> LevelBucket:
    """The bucket that counts these values of the level's parts."""
    keys = store_keys(bucket_hash(level, values), kind_of(level))
    return LevelBucket(level.id_, level.tenant_of(values), keys, level.plain_terms)


def bucket_hash(level: Level, values: str) -> str:
    """The name of a bucket at the store: of its level, and of the values that it counts."""
    return xxhash.xxh3_128_hexdigest(f"{level.store_id}\x1f{values}".encode())


def kind_of(level: Level) -> str:
    """Permits are kept under names of their own: the store has other types for them, whichever version follows."""
    return "c" if level.policy.algorithm == "concurrency" else "b"


def store_keys(key_hash: str, kind: str = "b") -> tuple[bytes, bytes]:
    """Of a bucket at the store, and of its leases; of permits, and of what some of them cost."""
    beside = "p" if kind == "c" else "l"
    return f"rl:{{{key_hash}}}:{kind}".encode(), f"rl:{{{key_hash}}}:{beside}".encode()

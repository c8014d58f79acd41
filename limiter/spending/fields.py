"""What every spend reads and writes: the numbers of a bucket, a key and a ring, and what identities consumed.

Twice: in Python, and compiled from ``_spending.c`` where a C compiler was there at set-up. The compiled spender
(``spender.py``) reads these numbers in the objects, without Python's attributes: so they stand apart, below the classes
that have them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from mmap import mmap

Identity = tuple[str, str]  # limit key, request id


class PlainBucketFields:
    """What every spend reads of a bucket."""

    __slots__ = ("id_", "lease_ends_ns", "lease_flags", "left", "refill_below", "remaining", "reset_ms", "version")

    id_: str
    lease_ends_ns: int
    lease_flags: int  # of records of the lease: the decision's, and the lease's place in the book of leases
    left: int  # of the lease, to be spent now
    refill_below: int  # with less than this left, the limiter is told
    remaining: int  # at the store, when it was last asked, and what is held back of the lease
    reset_ms: int
    version: int


class PlainKeyFields:
    """What every spend reads of a key."""

    __slots__ = ("name", "row", "seed", "single")

    name: str
    seed: int  # of the hashes of its identities: the same on every gateway
    row: int  # in the stream's dictionary, for the single bucket's policy
    single: PlainBucketFields | None  # decides the key alone


class PlainRingFields:
    """Where the next record goes: whoever writes one moves ``at`` on."""

    __slots__ = ("at", "begin", "buffer", "end", "identities", "turns")

    at: int
    begin: int
    buffer: mmap
    end: int
    identities: int  # where their hashes begin; 0: none are kept
    turns: int


class PlainIdentities:
    """What identities consumed, in two generations for each of some shards; a shard whose time is over turns alone.

    Many small tables: one that grows, or is emptied, does not hold up a decision for long.
    """

    __slots__ = ("_shards",)

    def __init__(self, shards: int) -> None:
        self._shards: list[list[dict[Identity, int]]] = [[{}, {}] for _ in range(shards)]

    def cost_of(self, name: str, request_id: str) -> int:
        """What the identity consumed of the key of that name, -1 when it is not known."""
        identity = (name, request_id)
        young, old = self._shards[hash(identity) % len(self._shards)]
        found = young.get(identity)
        return old.get(identity, -1) if found is None else found

    def add(self, name: str, request_id: str, cost: int) -> None:
        """Remembers it in the young generation."""
        identity = (name, request_id)
        self._shards[hash(identity) % len(self._shards)][0][identity] = cost

    def young(self, shard: int) -> int:
        """How many the young generation of a shard has."""
        return len(self._shards[shard][0])

    def turn(self, shard: int) -> None:
        """The young generation grows old, the old one is forgotten."""
        self._shards[shard] = [{}, self._shards[shard][0]]


if TYPE_CHECKING:  # the compiled classes have the same methods
    BucketFields = PlainBucketFields
    KeyFields = PlainKeyFields
    RingFields = PlainRingFields
    SpentIdentities = PlainIdentities
    IS_COMPILED: bool
else:
    try:
        from limiter.spending._spending import BucketFields, KeyFields, RingFields, SpentIdentities

        IS_COMPILED = True
    except ImportError:
        BucketFields, KeyFields, RingFields = PlainBucketFields, PlainKeyFields, PlainRingFields
        SpentIdentities = PlainIdentities
        IS_COMPILED = False
